// Writes into reference.json what the reference makes of each stream: npm install eventsource-parser@3, node reference.mjs.
// Its events have a name and data; those without data it passes over, as the algorithm of WHATWG does.
import fs from 'node:fs';
import { createParser } from 'eventsource-parser';

const file = new URL('reference.json', import.meta.url);
const rows = JSON.parse(fs.readFileSync(file, 'utf8')).map(({ stream }) => {
  const events = [];
  const parser = createParser({ onEvent: e => e.data !== '' && events.push([e.event ?? '', e.data]) });
  parser.feed(new TextDecoder().decode(new TextEncoder().encode(stream)));
  parser.feed('\n'.slice(stream.endsWith('\r') ? 0 : 1)); // it waits for the second half of a last line end
  return JSON.stringify({ stream, events });
});
fs.writeFileSync(file, '[\n' + rows.join(',\n') + '\n]\n');
