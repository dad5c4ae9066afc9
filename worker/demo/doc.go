// Package demo runs agents through an outage of their carrier in four phases:
// healthy, outage without a breaker, outage with a breaker, and recovery. The carrier
// counts the calls that reach it. The demo writes a report and a picture.
package demo
