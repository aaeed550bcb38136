// Colors that color-blind people can distinguish: Okabe and Ito's, darker or lighter as the
// background requires. States also differ in their pattern.

export interface Palette {
  background: string;
  surface: string;
  text: string;
  faint: string;
  grid: string;
  accent: string;
  live: string;
  waiting: string;
  stranded: string;
  free: string;
  reserved: string;
  second: string;
  series: string[];
  other: string;
  dim: string;
  selection: string;
}

const LIGHT: Palette = {
  background: '#ffffff', surface: '#f5f6f8', text: '#1b1f24', faint: '#5b6470', grid: '#e3e6ea', accent: '#0b5cad',
  live: '#2f7fc1', waiting: '#e8a61d', stranded: '#cf4d0e', free: '#cfd5dc', reserved: '#3c4450', second: '#8a2f6b',
  series: ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#8b7500', '#6a4fb3'],
  other: '#9aa3ad', dim: '#dfe3e8', selection: '#111418',
};

const DARK: Palette = {
  background: '#12151a', surface: '#1a1e25', text: '#e6e9ed', faint: '#98a2af', grid: '#2a303a', accent: '#6cb6ff',
  live: '#4a9fe0', waiting: '#f0b23c', stranded: '#e8672a', free: '#3c4552', reserved: '#d4dae2', second: '#e394c6',
  series: ['#3d9be0', '#e9a820', '#1fb88a', '#d98bb8', '#7cc7f0', '#ee7733', '#d4c24a', '#a08be0'],
  other: '#717b88', dim: '#2a3039', selection: '#ffffff',
};

export function palette(dark: boolean): Palette {
  return dark ? DARK : LIGHT;
}

/** A color as a pixel of a canvas. */
export function pixel(color: string): number {
  const rgb = parseInt(color.slice(1), 16);
  return (0xff000000 | ((rgb & 0xff) << 16) | (rgb & 0xff00) | (rgb >>> 16)) >>> 0;
}

/** From dark to light with even steps of brightness, for ages and sizes. */
const RAMP = ['#3b1c6b', '#46408f', '#3a639c', '#2e829d', '#2aa198', '#4cbf85', '#93d766', '#e2e34f'];

export function ramp(part: number): string {
  const at = Math.min(Math.max(part, 0), 1) * (RAMP.length - 1);
  const i = Math.min(Math.floor(at), RAMP.length - 2);
  return mixed(RAMP[i], RAMP[i + 1], at - i);
}

export function mixed(one: string, other: string, part: number): string {
  const a = parseInt(one.slice(1), 16);
  const b = parseInt(other.slice(1), 16);
  let out = 0;
  for (const shift of [16, 8, 0]) {
    const x = (a >>> shift) & 0xff;
    const y = (b >>> shift) & 0xff;
    out |= Math.round(x + (y - x) * part) << shift;
  }
  return `#${out.toString(16).padStart(6, '0')}`;
}
