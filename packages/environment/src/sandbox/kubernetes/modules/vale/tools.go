//go:build tools

// Package tools names what is built, so that `go mod tidy` keeps its pins.
package tools

import _ "github.com/vale-cli/vale/v3/cmd/vale"
