// Package sim owns the simulated engine: vLLM's HTTP routes, error shapes and
// metric names over a model of time and of a prefix cache instead of over a
// GPU. The same [Engine] runs as a process (berth engine, through [Main]), in
// the process of berth dev, in benches, and in the bubbles of tests. It must
// never know anything of a fleet: no shim, no door, no replica. It is the stranger
// on the other side of the wire, and it is only useful while it stays one.
//
// What it imitates, and how faithfully:
//
//   - Loading: the port refuses until the load time has passed, as vLLM's does;
//     [Loading503] imitates the engines that listen early.
//   - Time: a request waits its turn behind max_num_seqs others (first in,
//     first out), then for its first token ([Config.TTFT] plus its uncached
//     prompt tokens over [Config.PrefillRate]), then gets one token every
//     1/[Config.TokensPerSecond]. Requests do not slow each other down.
//   - Prefix cache: blocks of [BlockSize] tokens in a hash chain, least recently
//     used out first. Prompts and outputs are both cached.
//   - Tokens: a reversible cut of the text into pieces of at most four bytes, see
//     [Tokenize]. The output is noise, and a function of the prompt alone.
//   - Trouble: every way to fail that [Fault] lists.
//
// Time comes from package time and connections from [Config.Listen] and
// [Config.Dial], so an Engine runs in a testing/synctest bubble on an in-memory
// network. There is no package state.
package sim
