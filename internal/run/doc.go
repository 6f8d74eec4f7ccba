// Package run keeps the promise that every goroutine has an owner who waits for it: it starts named actors together,
// ends them together, and turns signals into the end of a context. It must never know what an actor does.
package run
