// Package router owns the data path: it takes requests of OpenAI's clients, chooses a replica for each, carries the bytes
// both ways as they come, and reports once a tick what was used and what is asked for. It keeps its routing table on
// disk, so it goes on and even starts with every peer dead. It must never know how replicas are placed, what the log
// says, or which client library reaches the peers: those are a [Source] and a [Sink] to it.
//
// What it may read of a request is the model's name, whether a stream is asked for, and the bytes of the prompt, of which
// only hashes are kept; what it may change of an answer is nothing, save that an error of any engine is brought into
// OpenAI's shape. The choice, the counts and the times of use live in router/pool, what is remembered of prompts in
// router/prefix, who may ask in router/access, OpenAI's forms in router/openai.
package router
