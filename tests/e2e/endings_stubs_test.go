package e2e_test

import (
	"testing"
)

func testEndingsEncrypted(t *testing.T, address string)  {}
func testEndingsShutdown(t *testing.T, address string)   {}
func testEndingsNeighbours(t *testing.T, address string) {}
func testEndingsTracing(t *testing.T, address string)    {}
func testEndingsPlugins(t *testing.T, address string)    {}
func testEndingsTwice(t *testing.T, address string)      {}
