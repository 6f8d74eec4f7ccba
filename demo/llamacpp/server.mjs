// A small stand-in for llama-server: its flags, its routes and its answers over llama.cpp itself, which node-llama-cpp
// brings as a library. It exists so that the demo meets a real engine with real tokens on any Linux machine with Node.
// Usage: node server.mjs -m FILE [--alias NAME] [--host ADDRESS|PATH.sock] [--port N] [-c N] [-np N] …
import {createServer} from "node:http";
import {rmSync} from "node:fs";
import {Engine, TooLong} from "./engine.mjs";
import {parseArgs} from "./args.mjs";
import * as api from "./api.mjs";

const bodyLimit = 16 << 20;
let options, engine; // engine is there once the model is loaded
let sequence = 0;

const routes = {
    "GET /health": (_, res) => json(res, 200, {status: "ok"}),
    "GET /v1/health": (_, res) => json(res, 200, {status: "ok"}),
    "GET /v1/models": models,
    "GET /models": models,
    "GET /metrics": metrics,
    "POST /v1/chat/completions": (req, res) => answer(req, res, api.chat, api.renderChat),
    "POST /v1/completions": (req, res) => answer(req, res, api.completion, api.renderPrompt),
    "POST /v1/embeddings": embeddings
};
const open = ["/health", "/v1/health", "/v1/models", "/models"]; // need no key

async function handle(req, res) {
    try {
        const path = req.url.split("?")[0];
        if (!engine) throw new api.Refusal(503, "unavailable_error", "Loading model");
        if (options.apiKey && !open.includes(path) && req.headers.authorization !== `Bearer ${options.apiKey}`) {
            throw new api.Refusal(401, "authentication_error", "Invalid API Key");
        }
        const route = routes[`${req.method} ${path}`];
        if (!route) throw new api.Refusal(404, "not_found_error", "File Not Found");
        await route(req, res);
    } catch (error) {
        fail(res, error);
    }
}

// fail answers with the error, as an event when the answer has begun.
function fail(res, error) {
    if (res.destroyed || res.closed) return;
    if (error instanceof TooLong) error = new api.Refusal(400, "exceed_context_size_error", error.message);
    if (!(error instanceof api.Refusal)) {
        console.error(error);
        error = new api.Refusal(500, "server_error", error.message);
    }
    if (res.headersSent) res.end(`data: ${JSON.stringify(error.body())}\n\n`);
    else json(res, error.status, error.body());
}

function json(res, status, value) {
    res.writeHead(status, {"content-type": "application/json; charset=utf-8"});
    res.end(JSON.stringify(value));
}

async function body(req) {
    const chunks = [];
    let length = 0;
    for await (const chunk of req) {
        length += chunk.length;
        if (length > bodyLimit) throw new api.Refusal(413, "invalid_request_error", `the body is over ${bodyLimit} bytes`);
        chunks.push(chunk);
    }
    try {
        const value = JSON.parse(Buffer.concat(chunks).toString());
        if (value === null || typeof value !== "object") throw new Error("not an object");
        return value;
    } catch (error) {
        throw api.invalid(`the body is not valid JSON: ${error.message}`);
    }
}

function models(_, res) {
    const meta = {n_ctx_train: engine.model.trainContextSize, size: engine.model.size};
    json(res, 200, {object: "list", data: [{id: options.alias, object: "model", created: started, owned_by: "llamacpp", meta}]});
}

function metrics(_, res) {
    if (!options.metrics) throw new api.Refusal(501, "not_supported_error", "This server does not support metrics endpoint. Start it with `--metrics`");
    res.writeHead(200, {"content-type": "text/plain; version=0.0.4"});
    res.end(api.metrics(engine));
}

// answer generates, streamed or not. A client that goes away ends the work within a token.
async function answer(req, res, dialect, render) {
    const gone = new AbortController();
    res.on("close", () => gone.abort(new Error("the client went away")));
    const request = await body(req);
    const tokens = engine.tokenize(render(request));
    const pieces = engine.generate(tokens, {...api.sampling(request), signal: gone.signal});
    const head = {id: `${dialect.id}-${++sequence}`, created: Math.floor(Date.now() / 1000), model: options.alias};
    const write = request.stream ? streamed(res, dialect, head, request) : whole(res, dialect, head);
    let made = 0, step;
    while (!(step = await pieces.next()).done) {
        made++;
        if (step.value !== "" && write.piece(step.value) === false) await drained(res, gone.signal);
    }
    if (gone.signal.aborted) {
        console.error(`aborted ${head.id} after ${made} tokens`);
        return;
    }
    write.end(step.value, {prompt_tokens: tokens.length, completion_tokens: made, total_tokens: tokens.length + made});
}

function whole(res, dialect, head) {
    let text = "";
    return {
        piece(more) { text += more; },
        end(reason, usage) {
            json(res, 200, {...head, object: dialect.object, choices: dialect.whole(text, reason), usage});
        }
    };
}

function streamed(res, dialect, head, request) {
    const event = (choices, more) => res.write(`data: ${JSON.stringify({...head, object: dialect.chunk, choices, ...more})}\n\n`);
    res.writeHead(200, {"content-type": "text/event-stream", "cache-control": "no-cache"});
    res.flushHeaders();
    if (dialect.first()) event(dialect.first());
    return {
        piece: (text) => event(dialect.piece(text)),
        end(reason, usage) {
            event(dialect.last(reason));
            if (request.stream_options?.include_usage) event([], {usage});
            res.end("data: [DONE]\n\n");
        }
    };
}

// drained waits until a slow client has taken what was written, or has gone.
function drained(res, signal) {
    return new Promise((resolve) => {
        res.once("drain", resolve);
        signal.addEventListener("abort", resolve, {once: true});
    });
}

async function embeddings(req, res) {
    if (!options.embeddings) throw new api.Refusal(501, "not_supported_error", "This server does not support embeddings. Start it with `--embeddings`");
    const {input} = await body(req);
    const list = typeof input === "string" ? [input] : input;
    if (!Array.isArray(list) || !list.every((text) => typeof text === "string")) throw api.invalid("'input' must be a string or a list of strings");
    const used = list.reduce((n, text) => n + engine.tokenize(text).length, 0);
    const data = [];
    for (const [index, text] of list.entries()) data.push({object: "embedding", index, embedding: await engine.embed(text)});
    json(res, 200, {object: "list", model: options.alias, data, usage: {prompt_tokens: used, total_tokens: used}});
}

function stop(code) {
    server.close();
    server.closeAllConnections();
    if (options.host.endsWith(".sock")) rmSync(options.host, {force: true});
    process.exit(code);
}

try {
    options = parseArgs(process.argv.slice(2));
} catch (error) {
    console.error(`error: ${error.message}`);
    process.exit(1);
}
const started = Math.floor(Date.now() / 1000);
const server = createServer(handle);
server.on("error", (error) => {
    console.error(`error: ${error.message}`);
    process.exit(1);
});
process.on("SIGTERM", () => stop(0));
process.on("SIGINT", () => stop(0));
server.listen(options.host.endsWith(".sock") ? {path: options.host} : {host: options.host, port: options.port}, async () => {
    console.error(`listening on ${JSON.stringify(server.address())}, loading ${options.model}`);
    try {
        engine = await Engine.load(options);
        console.error(`model loaded after ${process.uptime().toFixed(2)} s`);
    } catch (error) {
        console.error(`error: cannot load ${options.model}: ${error.message}`);
        stop(1);
    }
});
