// Draws rectangles into the pixels of a canvas. A rectangle smaller than a pixel tints the pixel by
// its share of the area, so that even the smallest ones are visible as density.

/** A smaller share of a pixel is invisible. */
const LEAST_SHARE = 1 / 128;

export class Raster {
  readonly pixels: Uint32Array;
  private readonly image: ImageData;

  constructor(readonly width: number, readonly height: number) {
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  clear(color: number) {
    this.pixels.fill(color);
  }

  /** Fills [x0, x1) by [y0, y1), in fractional pixels. */
  fill(x0: number, y0: number, x1: number, y1: number, color: number) {
    const { width, height, pixels } = this;
    if (x0 < 0) x0 = 0;
    if (y0 < 0) y0 = 0;
    if (x1 > width) x1 = width;
    if (y1 > height) y1 = height;
    const w = x1 - x0;
    const h = y1 - y0;
    if (!(w > 0) || !(h > 0)) return;
    if (w >= 1 && h >= 1) {
      const left = (x0 + 0.5) | 0;
      const right = (x1 + 0.5) | 0;
      const bottom = (y1 + 0.5) | 0;
      for (let y = (y0 + 0.5) | 0; y < bottom; y++) {
        const row = y * width;
        if (right - left > 24) pixels.fill(color, row + left, row + right);
        else for (let x = row + left; x < row + right; x++) pixels[x] = color;
      }
      return;
    }
    // One of the sides is shorter than a pixel.
    const share = (w < 1 ? w : 1) * (h < 1 ? h : 1);
    const part = share >= 1 ? 256 : (share * 256 + 0.999) | 0;
    const left = x0 | 0;
    const right = w < 1 ? left + 1 : (x1 + 0.5) | 0;
    const bottom = h < 1 ? (y0 | 0) + 1 : (y1 + 0.5) | 0;
    for (let y = y0 | 0; y < bottom; y++) tint(pixels, y * width + left, y * width + right, color, part);
  }

  /** Fills whole columns [left, right) by [y0, y1), in fractional pixels. A height below a pixel
   * tints the pixel. */
  fillColumns(left: number, right: number, y0: number, y1: number, color: number) {
    const { width, height, pixels } = this;
    if (left < 0) left = 0;
    if (right > width) right = width;
    if (y0 < 0) y0 = 0;
    if (y1 > height) y1 = height;
    const h = y1 - y0;
    if (right <= left || h < LEAST_SHARE) return;
    if (h < 1) {
      const row = (y0 | 0) * width;
      tint(pixels, row + left, row + right, color, (h * 256) | 0);
      return;
    }
    const bottom = (y1 + 0.5) | 0;
    for (let y = (y0 + 0.5) | 0; y < bottom; y++) {
      const row = y * width;
      if (right - left > 24) pixels.fill(color, row + left, row + right);
      else for (let x = row + left; x < row + right; x++) pixels[x] = color;
    }
  }

  /** Like `fill`, but with diagonal lines, for memory that cannot be used. */
  hatch(x0: number, y0: number, x1: number, y1: number, color: number, period = 6) {
    const { width, height, pixels } = this;
    const left = Math.max(0, (x0 + 0.5) | 0);
    const right = Math.min(width, Math.max((x1 + 0.5) | 0, left + (x1 - x0 > 0.3 ? 1 : 0)));
    const bottom = Math.min(height, (y1 + 0.5) | 0);
    const thick = period / 2;
    for (let y = Math.max(0, (y0 + 0.5) | 0); y < bottom; y++) {
      for (let x = left; x < right; x++) if ((x + y) % period < thick) pixels[y * width + x] = color;
    }
  }

  show(context: CanvasRenderingContext2D, x: number, y: number) {
    context.putImageData(this.image, x, y);
  }
}

/** Mixes `part` of 256 of a color into the pixels. */
function tint(pixels: Uint32Array, from: number, to: number, color: number, part: number) {
  const rest = 256 - part;
  const even = Math.imul(color & 0xff00ff, part);
  const odd = Math.imul((color >>> 8) & 0xff, part);
  for (let i = from; i < to; i++) {
    const below = pixels[i];
    const redBlue = ((Math.imul(below & 0xff00ff, rest) + even) >>> 8) & 0xff00ff;
    const green = (Math.imul((below >>> 8) & 0xff, rest) + odd) & 0xff00;
    pixels[i] = 0xff000000 | redBlue | green;
  }
}
