module github.com/toolbreaker/toolbreaker

go 1.26.0

require (
	github.com/stretchr/testify v1.12.1
	go.temporal.io/api v1.64.3
	go.temporal.io/sdk v1.51.0
)
