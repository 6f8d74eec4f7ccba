// The server as a process, over a unix socket, with the tiny model. Run: npm test
import {test, before, after} from "node:test";
import assert from "node:assert/strict";
import {spawn, spawnSync} from "node:child_process";
import {request} from "node:http";
import {mkdtempSync, rmSync} from "node:fs";
import {createInterface} from "node:readline";
import {tmpdir} from "node:os";
import {join} from "node:path";

const here = import.meta.dirname;
const dir = mkdtempSync(join(tmpdir(), "llamacpp-"));
const model = join(dir, "tiny.gguf"), socketPath = join(dir, "l.sock");
let server, lines;

// line waits for the next log line that matches.
async function line(pattern) {
    for (;;) {
        const {value, done} = await lines.next();
        assert.ok(!done, `the log ended before ${pattern}`);
        if (pattern.test(value)) return value;
    }
}

function ask(method, path, body, {key = "k", onData} = {}) {
    return new Promise((resolve, reject) => {
        const req = request({socketPath, method, path, headers: {authorization: `Bearer ${key}`}}, (res) => {
            let text = "";
            res.setEncoding("utf8");
            res.on("data", (chunk) => { text += chunk; onData?.(req, text); });
            res.on("end", () => resolve({status: res.statusCode, text}));
            res.on("error", reject);
        });
        req.on("error", reject);
        req.end(body && JSON.stringify(body));
    });
}

before(async () => {
    assert.equal(spawnSync(process.execPath, [join(here, "make-gguf.mjs"), model]).status, 0);
    server = spawn(process.execPath, [join(here, "server.mjs"), "-m", model, "--alias", "tiny", "--host", socketPath, "-np", "1",
        "-c", "2048", "--api-key", "k", "--metrics"], {stdio: ["ignore", "ignore", "pipe"]});
    lines = createInterface({input: server.stderr})[Symbol.asyncIterator]();
    await line(/listening/);
    const early = await ask("GET", "/health");
    assert.equal(early.status, 503);
    assert.deepEqual(JSON.parse(early.text).error, {code: 503, message: "Loading model", type: "unavailable_error"});
    await line(/model loaded/);
});

after(async () => {
    const exit = new Promise((resolve) => server.on("exit", resolve));
    server.kill("SIGTERM");
    assert.equal(await exit, 0);
    rmSync(dir, {recursive: true});
});

test("health and models", async () => {
    assert.deepEqual(await ask("GET", "/health"), {status: 200, text: '{"status":"ok"}'});
    assert.equal(JSON.parse((await ask("GET", "/v1/models")).text).data[0].id, "tiny");
});

test("a streamed chat says what a whole one says", async () => {
    const chat = {model: "tiny", messages: [{role: "user", content: "hi"}], max_tokens: 12, ignore_eos: true, seed: 7, temperature: 1};
    const whole = JSON.parse((await ask("POST", "/v1/chat/completions", chat)).text);
    assert.equal(whole.usage.completion_tokens, 12);
    assert.equal(whole.choices[0].finish_reason, "length");
    const {text} = await ask("POST", "/v1/chat/completions", {...chat, stream: true, stream_options: {include_usage: true}});
    const events = text.trim().split("\n\n").map((event) => event.replace(/^data: /, ""));
    assert.equal(events.pop(), "[DONE]");
    const chunks = events.map((event) => JSON.parse(event));
    assert.deepEqual(chunks.pop().usage, whole.usage);
    assert.equal(chunks.map((c) => c.choices[0].delta.content ?? "").join(""), whole.choices[0].message.content);
});

test("refusals", async () => {
    const cases = [
        ["/v1/completions", {}, 400, "invalid_request_error"],
        ["/v1/chat/completions", {messages: []}, 400, "invalid_request_error"],
        ["/v1/completions", {prompt: "x".repeat(3000)}, 400, "exceed_context_size_error"],
        ["/v1/embeddings", {input: "x"}, 501, "not_supported_error"],
        ["/nothing", {}, 404, "not_found_error"]
    ];
    for (const [path, body, status, type] of cases) {
        const got = await ask("POST", path, body);
        assert.equal(got.status, status, path);
        assert.deepEqual([JSON.parse(got.text).error.code, JSON.parse(got.text).error.type], [status, type]);
    }
    assert.equal((await ask("POST", "/v1/completions", {prompt: "x"}, {key: "wrong"})).status, 401);
});

test("a client that goes away ends the work, and the next one gets the slot", async () => {
    const long = {prompt: "x", stream: true, ignore_eos: true};
    const cut = ask("POST", "/v1/completions", long, {onData: (req, text) => text.length > 2000 && req.destroy()});
    await assert.rejects(cut);
    const made = Number(/aborted .* after (\d+) tokens/.exec(await line(/aborted/))[1]);
    assert.ok(made > 0 && made < 2000, `aborted after ${made} tokens`);
    const next = await ask("POST", "/v1/completions", {prompt: "x", max_tokens: 3, ignore_eos: true});
    assert.equal(JSON.parse(next.text).usage.completion_tokens, 3);
    const {text} = await ask("GET", "/metrics");
    assert.match(text, /^llamacpp:requests_processing 0$/m);
    assert.match(text, /^llamacpp:requests_deferred 0$/m);
});
