package main

import "testing"

func TestTable(t *testing.T) {
	var r results
	r.add(0, `goos: linux
BenchmarkClosedSerial/toolbreaker-2   	 5442394	        60.00 ns/op	       0 B/op	       0 allocs/op
BenchmarkClosedSerial/gobreaker-2     	 2893280	       120.0 ns/op	       0 B/op	       0 allocs/op
BenchmarkClosedSerial/gobreaker-rolling-2     	 2893280	       150.0 ns/op	       0 B/op	       0 allocs/op
BenchmarkOpenSerial/toolbreaker-2     	 5442394	        8.000 ns/op	       0 B/op	       0 allocs/op
PASS
`)
	// The machine was slow in this round, for all.
	r.add(1, `BenchmarkClosedSerial/toolbreaker-2   	 5442394	        600.00 ns/op	       0 B/op	       1 allocs/op
BenchmarkClosedSerial/gobreaker-2     	 2893280	       1500.0 ns/op	       0 B/op	       0 allocs/op
`)
	const want = `| benchmark | ns a call | allocs | × gobreaker | × gobreaker-rolling |
| --- | --- | --- | --- | --- |
| ClosedSerial | 330.0 | 1 | 0.45 | 0.40 |
| OpenSerial | 8.0 | 0 | | |
`
	if got := r.table(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
