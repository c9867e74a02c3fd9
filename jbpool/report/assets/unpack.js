// Data that Python packed into the page (jbpool/report/page.py): {text, arrays: name -> typed array}.
globalThis.jbpoolUnpack = async function unpack(base64) {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  for (const {name, type, start, length: count} of head.arrays) {
    arrays[name] = new globalThis[type](buffer, 4 + length + start, count);
  }
  return {text: head.text, arrays};
};
