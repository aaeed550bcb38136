// A canvas above the x axis. All tracks have the same gutter on the left, so that a moment is one
// vertical line.

import { App } from '../app';
import { element } from '../dom';
import { Raster } from '../raster';

export const GUTTER = 104;
const RIGHT = 10;

export abstract class Track {
  readonly root: HTMLElement;
  readonly canvas: HTMLCanvasElement;
  protected readonly context: CanvasRenderingContext2D;
  protected width = 0; // of the plot, in CSS pixels
  protected height = 0;
  protected ratio = 1;
  private raster: Raster | null = null;

  constructor(protected readonly app: App, name: string, className: string) {
    this.canvas = element('canvas', { role: 'img', 'aria-label': name });
    this.root = element('section', { class: `track ${className}`, 'aria-label': name }, this.canvas);
    this.context = this.canvas.getContext('2d', { alpha: false })!;
  }

  protected abstract paint(): void;

  draw() {
    this.ratio = Math.min(devicePixelRatio || 1, 2);
    const width = this.root.clientWidth;
    this.height = this.wantedHeight() ?? this.root.clientHeight;
    this.width = Math.max(1, width - GUTTER - RIGHT);
    const [w, h] = [Math.round(width * this.ratio), Math.max(1, Math.round(this.height * this.ratio))];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
      this.canvas.style.height = `${this.height}px`;
    }
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.context.fillStyle = this.app.palette.background;
    this.context.fillRect(0, 0, width, this.height);
    this.paint();
  }

  /** Height in CSS pixels; null: the element's height. */
  protected wantedHeight(): number | null {
    return null;
  }

  /** The CSS pixel in the canvas for an x of the axis. */
  px(x: number): number {
    const { x0, x1 } = this.app.state;
    return GUTTER + ((x - x0) / (x1 - x0)) * this.width;
  }

  xAt(px: number): number {
    const { x0, x1 } = this.app.state;
    return x0 + ((px - GUTTER) / this.width) * (x1 - x0);
  }

  /** The pixels of the plot, `height` CSS pixels tall. */
  protected pixels(height = this.height): Raster {
    const [w, h] = [Math.round(this.width * this.ratio), Math.max(1, Math.round(height * this.ratio))];
    if (this.raster?.width !== w || this.raster.height !== h) this.raster = new Raster(w, h);
    return this.raster;
  }

  protected show(raster: Raster, top = 0) {
    raster.show(this.context, Math.round(GUTTER * this.ratio), Math.round(top * this.ratio));
  }

  protected label(text: string, y: number, options: { faint?: boolean; bold?: boolean; color?: string } = {}) {
    const { context, app } = this;
    context.font = `${options.bold ? '600 ' : ''}11.5px system-ui, sans-serif`;
    context.fillStyle = options.color ?? (options.faint ? app.palette.faint : app.palette.text);
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    context.fillText(fitted(context, text, GUTTER - 16), 8, y);
  }

  protected sizeLabel(text: string, y: number) {
    const { context, app } = this;
    context.font = '10.5px system-ui, sans-serif';
    context.fillStyle = app.palette.faint;
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    context.fillText(text, GUTTER - 6, y);
  }
}

/** Cuts the middle of a name, because stream handles and functions of one module begin alike. */
export function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  const cut = (kept: number) =>
    `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - Math.floor(kept / 2))}`;
  let most = text.length - 1;
  let least = 0;
  while (least < most) {
    const middle = (least + most + 1) >>> 1;
    if (context.measureText(cut(middle)).width <= width) least = middle;
    else most = middle - 1;
  }
  return least ? cut(least) : '';
}
