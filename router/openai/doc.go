// Package openai owns what a router must know of the OpenAI-compatible surface: which member of a request names the
// model, whether it asks for a stream, how an error is shaped, and how any engine's error is brought into that shape. It
// must never know replicas, routing or connections, and it never looks at what a prompt says.
package openai
