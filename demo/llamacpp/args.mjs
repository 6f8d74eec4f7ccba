// The command line of llama-server, as far as Berth's driver uses it.

const flags = {
    "-m": ["model", String], "--model": ["model", String],
    "-a": ["alias", String], "--alias": ["alias", String],
    "--host": ["host", String], "--port": ["port", count],
    "-c": ["context", count], "--ctx-size": ["context", count],
    "-np": ["slots", count], "--parallel": ["slots", count],
    "-t": ["threads", count], "--threads": ["threads", count],
    "-ngl": ["ignored", String], "--n-gpu-layers": ["ignored", String], "--device": ["ignored", String],
    "--api-key": ["apiKey", String],
    "--embeddings": ["embeddings"], "--embedding": ["embeddings"],
    "--metrics": ["metrics"], "--slots": ["ignored"], "--no-webui": ["ignored"]
};

/** parseArgs returns the options, or throws an Error that says what would be right. */
export function parseArgs(argv) {
    const options = {host: "127.0.0.1", port: 8080, context: 2048, slots: 1, threads: 1};
    for (let i = 0; i < argv.length; i++) {
        const [name, inline] = argv[i].startsWith("--") ? split(argv[i]) : [argv[i]];
        if (!Object.hasOwn(flags, name)) throw new Error(`unknown argument ${name}; these are known: ${Object.keys(flags).join(" ")}`);
        const [option, convert] = flags[name];
        if (!convert) {
            options[option] = true;
            continue;
        }
        const value = inline ?? argv[++i];
        if (value === undefined) throw new Error(`${name} needs a value`);
        options[option] = convert(value, name);
    }
    if (!options.model) throw new Error("no model: give its file by -m");
    options.alias ??= options.model;
    return options;
}

function split(arg) {
    const at = arg.indexOf("=");
    return at < 0 ? [arg] : [arg.slice(0, at), arg.slice(at + 1)];
}

function count(value, name) {
    const n = Number(value);
    if (!Number.isInteger(n) || n < 0) throw new Error(`${name} takes a whole number, not ${value}`);
    return n;
}
