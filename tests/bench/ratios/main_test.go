package main

import "testing"

func TestTable(t *testing.T) {
	r := results{unit: "cpu-ns/op"}
	r.add(0, `goos: linux
BenchmarkClosedSerial/toolbreaker-2   	 5442394	        1.000 ns/op	       60.00 cpu-ns/op	       0 B/op	       0 allocs/op
BenchmarkClosedSerial/gobreaker-2     	 2893280	 1.000 ns/op	 120.0 cpu-ns/op	       0 B/op	       0 allocs/op
BenchmarkClosedSerial/gobreaker-rolling-2     	 2893280	 1.000 ns/op	 150.0 cpu-ns/op	       0 B/op	       0 allocs/op
BenchmarkOpenSerial/toolbreaker-2     	 5442394	        1.000 ns/op	       8.000 cpu-ns/op	       0 B/op	       0 allocs/op
PASS
`)
	// In this round, all systems were slow.
	r.add(1, `BenchmarkClosedSerial/toolbreaker-2   	 5442394	        1.000 ns/op	       600.00 cpu-ns/op	       0 B/op	       1 allocs/op
BenchmarkClosedSerial/gobreaker-2     	 2893280	 1.000 ns/op	 1500.0 cpu-ns/op	       0 B/op	       0 allocs/op
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
