// What the requests and answers of llama-server look like.

/** Refusal is an error with an answer: llama-server's nested form, the status as an integer code. */
export class Refusal extends Error {
    constructor(status, type, message) {
        super(message);
        this.status = status;
        this.type = type;
    }

    body() { return {error: {code: this.status, message: this.message, type: this.type}}; }
}

export const invalid = (message) => new Refusal(400, "invalid_request_error", message);

/** renderChat renders a chat; the template is our own, since the model has none. */
export function renderChat({messages}) {
    if (!Array.isArray(messages) || messages.length === 0) throw invalid("'messages' must be a non-empty array");
    const text = ({content}) => Array.isArray(content) ? content.map((part) => part.text ?? "").join("") : content ?? "";
    return messages.map((m) => `<|${m.role}|>\n${text(m)}\n`).join("") + "<|assistant|>\n";
}

export function renderPrompt({prompt}) {
    if (typeof prompt !== "string") throw invalid("'prompt' must be a string");
    return prompt;
}

/** sampling reads what generate needs. */
export function sampling(body) {
    const limit = body.max_completion_tokens ?? body.max_tokens ?? Infinity;
    const temperature = body.temperature ?? 0.8;
    if (typeof limit !== "number" || typeof temperature !== "number") throw invalid("max_tokens and temperature are numbers");
    return {limit: limit < 0 ? Infinity : limit, temperature, seed: body.seed ?? undefined, ignoreEnd: body.ignore_eos === true};
}

/** The two dialects: how a piece of text, an end and a whole answer are said. */
export const chat = {
    id: "chatcmpl", object: "chat.completion", chunk: "chat.completion.chunk",
    first: () => [{index: 0, delta: {role: "assistant", content: null}, finish_reason: null}],
    piece: (text) => [{index: 0, delta: {content: text}, finish_reason: null}],
    last: (reason) => [{index: 0, delta: {}, finish_reason: reason}],
    whole: (text, reason) => [{index: 0, message: {role: "assistant", content: text}, finish_reason: reason}]
};

export const completion = {
    id: "cmpl", object: "text_completion", chunk: "text_completion",
    first: () => null,
    piece: (text) => [{index: 0, text, finish_reason: null}],
    last: (reason) => [{index: 0, text: "", finish_reason: reason}],
    whole: (text, reason) => [{index: 0, text, finish_reason: reason}]
};

/** metrics is the Prometheus text, with llama-server's names. */
export function metrics(engine) {
    const {counts} = engine;
    const rows = [
        ["prompt_tokens_total", "counter", "Number of prompt tokens processed.", counts.prompt],
        ["tokens_predicted_total", "counter", "Number of generation tokens processed.", counts.predicted],
        ["predicted_tokens_seconds", "gauge", "Average generation throughput in tokens/s.", counts.seconds ? counts.predicted / counts.seconds : 0],
        ["requests_processing", "gauge", "Number of requests processing.", counts.processing],
        ["requests_deferred", "gauge", "Number of requests deferred.", engine.deferred],
        ["kv_cache_usage_ratio", "gauge", "KV-cache usage. 1 means 100 percent usage.", engine.kvUse]
    ];
    return rows.map(([name, kind, help, value]) =>
        `# HELP llamacpp:${name} ${help}\n# TYPE llamacpp:${name} ${kind}\nllamacpp:${name} ${value}\n`).join("");
}
