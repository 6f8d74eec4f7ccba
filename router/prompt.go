package router

import (
	"berth/router/openai"
	"berth/router/pool"
	"berth/router/prefix"
)

// prompt is what the choice of a replica needs to know of the request, for a policy that asks for it.
func (x *exchange) prompt() pool.Prompt {
	if !x.h.pool.KnowsPrompts(x.want.model) {
		return pool.Prompt{}
	}
	p := x.want.body.prompt(x.want)
	session := x.r.Header.Get("X-Session-Id")
	if session == "" {
		session = x.want.session
	}
	if session != "" {
		p.Session = prefix.Text(sessionSeed, session)
	}
	if name, _ := x.h.pool.Name(x.want.model); name != x.want.model {
		p.Adapter = prefix.Text(adapterSeed, x.want.model)
	}
	return p
}

// Seeds keep hashes of different things apart.
const (
	promptSeed  = 1
	sessionSeed = 2
	adapterSeed = 3
)

// prompt hashes what was read of the body. An engine with adapters keeps prompts apart by adapter, and the name that was
// asked for is all that is known of it here, so the name comes first.
func (b *body) prompt(w *want) pool.Prompt {
	p := pool.Prompt{}
	seed := prefix.Text(promptSeed, w.model)
	for _, span := range w.prompt.Before {
		part := span.Of(b.head)
		p.Bytes += len(part)
		seed = prefix.Sum(seed, part)
	}
	text := w.prompt.Text.Of(b.head)
	p.Bytes += len(text)
	p.Blocks = prefix.Chain(make([]uint64, 0, len(text)/prefix.BlockSize), seed, text)
	return p
}

// ReadPrompt reads the model and the prompt out of a JSON body as a Router does, for a program that calls
// [Router.Acquire] for requests that it sends itself.
func ReadPrompt(data []byte) (model string, p pool.Prompt, err error) {
	var scan openai.Scanner
	if _, err := scan.Write(data); err != nil {
		return "", pool.Prompt{}, err
	}
	if err := scan.Close(); err != nil {
		return "", pool.Prompt{}, err
	}
	if model, err = scan.Model(); err != nil {
		return "", pool.Prompt{}, err
	}
	b := &body{head: data}
	return model, b.prompt(&want{model: model, prompt: scan.Prompt()}), nil
}
