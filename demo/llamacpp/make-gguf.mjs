// Writes a tiny Llama model with random weights in GGUF: 2 layers, 64 wide, a byte-level vocabulary. Its text is noise,
// but its tokens are real: llama.cpp loads it, evaluates it and samples from it like any model. The same file comes out
// each time. Usage: node make-gguf.mjs FILE
//
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (version 3, little endian).
import {writeFileSync} from "node:fs";

const width = 64, layers = 2, heads = 4, feedForward = 128, contextLength = 2048;
const alignment = 32;

// The vocabulary: three special tokens, each byte, each printable ASCII character.
const NORMAL = 1, UNKNOWN = 2, CONTROL = 3, BYTE = 6; // llama.cpp's token types
const vocabulary = [["<unk>", UNKNOWN], ["<s>", CONTROL], ["</s>", CONTROL]];
for (let b = 0; b < 256; b++) vocabulary.push([`<0x${b.toString(16).toUpperCase().padStart(2, "0")}>`, BYTE]);
for (let c = 32; c < 127; c++) vocabulary.push([c === 32 ? "\u2581" : String.fromCharCode(c), NORMAL]); // ▁ is SentencePiece's blank

// value encoders by GGUF type number
const u32 = (n) => { const b = Buffer.alloc(4); b.writeUInt32LE(n); return b; };
const u64 = (n) => { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(n)); return b; };
const f32 = (n) => { const b = Buffer.alloc(4); b.writeFloatLE(n); return b; };
const str = (s) => { const b = Buffer.from(s); return Buffer.concat([u64(b.length), b]); };
const typed = {
    uint: (n) => [4, u32(n)],
    float: (n) => [6, f32(n)],
    string: (s) => [8, str(s)],
    array: (type, encode, list) => [9, Buffer.concat([u32(type), u64(list.length), ...list.map(encode)])]
};

const metadata = {
    "general.architecture": typed.string("llama"),
    "general.name": typed.string("berth-tiny-random"),
    "general.alignment": typed.uint(alignment),
    "llama.vocab_size": typed.uint(vocabulary.length),
    "llama.context_length": typed.uint(contextLength),
    "llama.embedding_length": typed.uint(width),
    "llama.block_count": typed.uint(layers),
    "llama.feed_forward_length": typed.uint(feedForward),
    "llama.attention.head_count": typed.uint(heads),
    "llama.attention.head_count_kv": typed.uint(heads),
    "llama.attention.layer_norm_rms_epsilon": typed.float(1e-5),
    "llama.rope.dimension_count": typed.uint(width / heads),
    "tokenizer.ggml.model": typed.string("llama"),
    "tokenizer.ggml.tokens": typed.array(8, str, vocabulary.map(([text]) => text)),
    "tokenizer.ggml.scores": typed.array(6, f32, vocabulary.map((_, i) => -i)),
    "tokenizer.ggml.token_type": typed.array(5, u32, vocabulary.map(([, type]) => type)),
    "tokenizer.ggml.unknown_token_id": typed.uint(0),
    "tokenizer.ggml.bos_token_id": typed.uint(1),
    "tokenizer.ggml.eos_token_id": typed.uint(2)
};

const tensors = [
    ["token_embd.weight", width, vocabulary.length],
    ["output_norm.weight", width],
    ["output.weight", width, vocabulary.length]
];
for (let i = 0; i < layers; i++) {
    const block = `blk.${i}`;
    tensors.push([`${block}.attn_norm.weight`, width], [`${block}.ffn_norm.weight`, width]);
    for (const name of ["attn_q", "attn_k", "attn_v", "attn_output"]) tensors.push([`${block}.${name}.weight`, width, width]);
    tensors.push(
        [`${block}.ffn_gate.weight`, width, feedForward],
        [`${block}.ffn_up.weight`, width, feedForward],
        [`${block}.ffn_down.weight`, feedForward, width]
    );
}

// mulberry32 (public domain, Tommy Ettinger): small, seeded, the same everywhere.
let seed = 20260101;
function random() {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
}

// Norms are one; the rest is uniform with the variance 1/columns that keeps activations in range.
function data([, ...dims]) {
    const scale = Math.sqrt(3 / dims[0]);
    const out = Buffer.alloc(4 * dims.reduce((a, b) => a * b, 1));
    for (let i = 0; i < out.length; i += 4) out.writeFloatLE(dims.length === 1 ? 1 : (2 * random() - 1) * scale, i);
    return out;
}

const padding = (length) => Buffer.alloc((alignment - length % alignment) % alignment);

function gguf() {
    const head = [Buffer.from("GGUF"), u32(3), u64(tensors.length), u64(Object.keys(metadata).length)];
    for (const [key, [type, value]] of Object.entries(metadata)) head.push(str(key), u32(type), value);
    const body = [];
    let offset = 0;
    for (const tensor of tensors) {
        const [name, ...dims] = tensor;
        head.push(str(name), u32(dims.length), ...dims.map(u64), u32(0 /* F32 */), u64(offset));
        const bytes = data(tensor);
        body.push(bytes, padding(bytes.length));
        offset += bytes.length + padding(bytes.length).length;
    }
    const start = Buffer.concat(head);
    return Buffer.concat([start, padding(start.length), ...body]);
}

const file = process.argv[2];
if (process.argv.length !== 3 || file.startsWith("-")) {
    console.error("usage: node make-gguf.mjs FILE");
    process.exit(64);
}
writeFileSync(file, gguf());
