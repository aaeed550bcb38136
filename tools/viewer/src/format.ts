// Readable sizes and counts. Unknown values are named as such.

const UNITS: [number, string][] = [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']];

export function sizeText(bytes: number | null): string {
  if (bytes === null || Number.isNaN(bytes)) return 'not known';
  const sign = bytes < 0 ? '−' : '';
  const size = Math.abs(bytes);
  for (const [unit, name] of UNITS) {
    if (size >= unit) {
      const value = size / unit;
      return `${sign}${value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2)} ${name}`;
    }
  }
  return `${sign}${size} B`;
}

export function countText(count: number): string {
  return Math.round(count).toLocaleString('en-US');
}

export function plural(count: number, noun: string): string {
  return `${countText(count)} ${noun}${count === 1 ? '' : 's'}`;
}

export function addressText(address: number): string {
  return address < 0 ? 'not known' : `0x${Math.floor(address).toString(16)}`;
}

/** Parses "1.5GiB", "200 MiB", "4096" to bytes; null: not a size. */
export function parseSize(text: string): number | null {
  const match = /^([\d.]+)\s*([kmgt]?)(i?b)?$/i.exec(text.trim());
  if (!match || Number.isNaN(Number(match[1]))) return null;
  return Number(match[1]) * 1024 ** ' kmgt'.indexOf(match[2].toLowerCase() || ' ');
}
