// Runs OpenAI's client for Node through a router and prints what it got, as one JSON object. BASE is the router's address.
import OpenAI from 'openai';

const at = (base, options = {}) => new OpenAI({ baseURL: `${base}/v1`, apiKey: 'k', ...options });
const client = at(process.env.BASE);
const once = at(process.env.BASE, { maxRetries: 0 });
const say = (model) => ({ model, messages: [{ role: 'user', content: 'Say something.' }] });

async function read(stream) {
  let text = '', chunks = 0;
  for await (const chunk of stream) {
    chunks++;
    text += chunk.choices[0]?.delta?.content ?? '';
  }
  return { text, chunks };
}

async function failure(promise) {
  try {
    await promise;
    return null;
  } catch (e) {
    return { kind: e.constructor.name, status: e.status, code: e.code, type: e.type, param: e.param, requestID: e.requestID, message: String(e.message) };
  }
}

const out = {};
const whole = await client.chat.completions.create(say('m'));
out.chat = whole.choices[0].message.content;
out.chatRequestID = whole._request_id;
out.stream = await read(await client.chat.completions.create({ ...say('m'), stream: true }));
out.tools = (await client.chat.completions.create({
  ...say('tools'), tools: [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }],
})).choices[0].message.tool_calls[0].function;
out.embeddings = (await client.embeddings.create({ model: 'm', input: ['a', 'b'], encoding_format: 'float' })).data.map((d) => d.embedding.length);
out.models = [];
for await (const model of client.models.list()) out.models.push(model.id);
out.model = (await client.models.retrieve('acme/Qwen-X:Q4')).id;
out.unknown = await failure(client.chat.completions.create(say('none')));
out.flat = await failure(client.chat.completions.create(say('flat')));
out.diesBefore = await failure(Promise.all(Array.from({ length: 6 }, () => once.chat.completions.create(say('dies-before')))));
out.diesBeforeStream = await failure((async () => {
  for (let i = 0; i < 6; i++) {
    const { text } = await read(await once.chat.completions.create({ ...say('dies-before'), stream: true }));
    if (text === '') throw new Error('an empty stream');
  }
})());
out.diesAfter = await failure((async () => read(await client.chat.completions.create({ ...say('dies-after'), stream: true })))());
const begin = Date.now();
out.retried = await failure(client.chat.completions.create(say('once-down')));
out.retriedAfter = Date.now() - begin;
console.log(JSON.stringify(out));
