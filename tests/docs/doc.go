// Package docs tests that the documents are true of the code.
package docs
