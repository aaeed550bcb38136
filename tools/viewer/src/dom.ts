// Makes elements without a framework. Text from the data is only ever set as text.

type Attributes = Record<string, string | number | boolean | ((event: any) => void) | undefined>;

export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag, attributes: Attributes = {}, ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === 'function') node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  node.append(...children);
  return node;
}

/** Bytes in readable form. The exact number is available to programs and as a tooltip. */
export function bytesElement(bytes: number | null, text: string): HTMLElement {
  if (bytes === null) return element('span', { class: 'unknown' }, text);
  return element('data', { value: bytes, title: `${bytes.toLocaleString('en-US')} bytes` }, text);
}
