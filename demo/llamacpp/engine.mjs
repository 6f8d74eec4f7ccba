// The model: loads it with llama.cpp and hands out its tokens, one slot a request. It knows nothing of HTTP.

/** TooLong is thrown for a prompt that leaves no room in the context. */
export class TooLong extends Error {}

export class Engine {
    counts = {processing: 0, prompt: 0, predicted: 0, seconds: 0};
    #waiting = [];
    #slots = [];
    #free = [];

    /** load reads the model file. Importing the binding takes longer than a tiny model does, so it happens here. */
    static async load(options) {
        const {getLlama, LlamaLogLevel} = await import("node-llama-cpp");
        const llama = await getLlama({
            gpu: false, build: "never", skipDownload: true, progressLogs: false,
            maxThreads: options.threads, logLevel: LlamaLogLevel.error
        });
        const engine = new Engine();
        engine.llama = llama;
        engine.model = await llama.loadModel({modelPath: options.model});
        engine.room = Math.floor(options.context / options.slots); // as llama-server shares -c among its slots
        engine.context = await engine.model.createContext({
            sequences: options.slots, contextSize: engine.room, threads: options.threads
        });
        for (let i = 0; i < options.slots; i++) engine.#slots.push(engine.context.getSequence());
        engine.#free.push(...engine.#slots);
        if (options.embeddings) engine.embedder = await engine.model.createEmbeddingContext();
        return engine;
    }

    get deferred() { return this.#waiting.length; }

    /** kvUse is the share of the context that is filled, 0 to 1. */
    get kvUse() {
        const filled = this.#slots.reduce((n, slot) => n + slot.nextTokenIndex, 0);
        return filled / (this.room * this.#slots.length);
    }

    tokenize(text) {
        const tokens = [this.model.tokens.bos, ...this.model.tokenize(text)];
        if (tokens.length >= this.room) throw new TooLong(`the request has ${tokens.length} tokens, the available context size is ${this.room}`);
        return tokens;
    }

    /**
     * generate yields the text of each token; it returns "stop" or "length". It waits for a slot, first come, first
     * served, and stops within one token when signal is aborted.
     */
    async *generate(tokens, {limit, temperature, seed, signal, ignoreEnd}) {
        const slot = await this.#take(signal);
        const began = performance.now();
        this.counts.processing++;
        try {
            await slot.clearHistory();
            this.counts.prompt += tokens.length;
            const most = Math.min(limit, this.room - tokens.length);
            let made = 0, held = [];
            for await (const token of slot.evaluate(tokens, {temperature, seed, yieldEogToken: true})) {
                if (signal.aborted) return "abort";
                if (this.model.isEogToken(token) && !ignoreEnd) return "stop";
                this.counts.predicted++;
                held.push(token);
                const text = this.model.detokenize(held);
                // A byte of an unfinished character waits for the rest of it.
                if (!text.endsWith("\ufffd") || held.length === 4 || made + 1 === most) held = [];
                yield held.length > 0 ? "" : text;
                if (++made >= most) return "length";
            }
            return "stop";
        } finally {
            this.counts.processing--;
            this.counts.seconds += (performance.now() - began) / 1000;
            this.#give(slot);
        }
    }

    async embed(text) {
        return (await this.embedder.getEmbeddingFor(text)).vector;
    }

    async dispose() { await this.llama?.dispose(); }

    #take(signal) {
        const slot = this.#free.pop();
        if (slot) return slot;
        return new Promise((resolve, reject) => {
            const waiter = {resolve};
            this.#waiting.push(waiter);
            signal.addEventListener("abort", () => {
                const at = this.#waiting.indexOf(waiter);
                if (at >= 0) this.#waiting.splice(at, 1);
                reject(signal.reason);
            }, {once: true});
        });
    }

    #give(slot) {
        const next = this.#waiting.shift();
        if (next) next.resolve(slot);
        else this.#free.push(slot);
    }
}
