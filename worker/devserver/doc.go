// Package devserver runs a complete Temporal server and its web UI inside the
// calling process, and chooses between that server and one the environment
// names.
//
// It is for development, demonstrations and tests: one process, one SQLite
// database, loopback only, no authentication, no rate limits worth the name.
package devserver
