// Command prefix measures how well the router chooses replicas for requests whose prompts begin alike: a trace of real
// requests is replayed in virtual time against simulated engines that keep a cache of prompts, once for each policy.
//
// Berth's policies are the router's own code: each request is written as a JSON body, read by the router's reader of
// bodies, hashed by its prefix index, and put through Pool.Acquire, Lease.Answered and Lease.Release at the moments at
// which an engine would answer. Only HTTP is left out. The baselines are written down here after what their projects
// publish, and are told more than they could know: what really lies in each engine's cache, and how many requests wait
// in it, without delay. Berth's are told when first bytes and ends came, and once a
// second how many requests wait in each engine, as they ask real ones.
//
// An engine computes one prompt after another, at a fixed rate of tokens that are not in its cache; after that a request
// stays in flight while it gets its tokens. The cache holds blocks of 512 tokens, least recently used out first. That is
// a study of policies, not a claim about a card.
//
// Traces have the form of Mooncake's (Qin et al., FAST 2025; kvcache-ai/Mooncake, Apache-2.0): one JSON object a line
// with timestamp (milliseconds), input_length, output_length (tokens) and hash_ids, one for each block of 512 tokens.
package main
