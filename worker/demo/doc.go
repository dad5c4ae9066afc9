// Package demo runs agents through an outage of their carrier: healthy, without
// a breaker, with one, and through recovery. It measures what reached the
// carrier by the carrier's own count, and writes a report and a picture.
package demo
