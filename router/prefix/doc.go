// Package prefix owns what a router remembers of prompts: chains of hashes of their blocks, and for each replica which
// blocks it has had lately. It must never know a request, a tokenizer, or what becomes of what it finds.
//
// Engines keep the computed form of prompts by blocks of tokens and reuse them for a prompt that begins alike. A router
// cannot see tokens without a tokenizer of each model, but equal bytes give equal tokens, so blocks of bytes serve as
// well: what is lost is at most one block at the end.
package prefix
