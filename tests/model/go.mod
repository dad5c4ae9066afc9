module github.com/toolbreaker/toolbreaker/tests/model

go 1.26.0

replace github.com/toolbreaker/toolbreaker => ../../

require (
	github.com/stretchr/testify v1.12.1
	github.com/toolbreaker/toolbreaker v0.0.0
	go.yaml.in/yaml/v3 v3.0.5
	pgregory.net/rapid v1.3.0
)
