// Package devserver runs a complete Temporal server and its web UI inside the
// calling process.
//
// It is for development, demonstrations and tests: one process, one SQLite
// database, loopback only, no authentication, rate limits that are never reached.
//
// The build tag noserver leaves the server out. Start then returns an error.
package devserver
