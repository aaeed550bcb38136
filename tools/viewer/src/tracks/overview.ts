// The whole run, with the shown part marked. Dragging selects that part.

import { App } from '../app';
import { pixel } from '../palette';
import { lowerBound } from '../pyramid';
import { GUTTER, Track } from './track';

export class Overview extends Track {
  private painted = '';

  constructor(app: App) {
    super(app, 'Overview of the whole run', 'overview');
    this.root.title = 'Drag to choose a range';
    this.listen();
  }

  protected paint() {
    const { app, context } = this;
    const { palette } = app;
    const raster = this.pixels();
    const key = [app.state.run, app.state.device, app.state.axis, app.dark, raster.width, raster.height].join();
    if (this.painted !== key) this.paintRun();
    this.painted = key;
    this.show(raster);
    this.label('Overview', this.height / 2, { faint: true });
    const [left, right] = [app.state.x0, app.state.x1].map((x) => GUTTER + (x / app.axis.end) * this.width);
    context.globalAlpha = 0.72;
    context.fillStyle = palette.background;
    context.fillRect(GUTTER, 0, left - GUTTER, this.height);
    context.fillRect(right, 0, GUTTER + this.width - right, this.height);
    context.globalAlpha = 1;
    context.strokeStyle = palette.accent;
    context.lineWidth = 1.5;
    context.strokeRect(left, 0.75, Math.max(2, right - left), this.height - 1.5);
  }

  /** Draws the whole run, which stays in the raster. */
  private paintRun() {
    const { app } = this;
    const { device, palette } = app;
    const raster = this.pixels();
    raster.clear(pixel(palette.surface));
    const { live, reserved } = device.levels;
    let top = live[device.livePyramid.argMax(0, live.length)] || 1;
    if (reserved) top = Math.max(top, reserved[device.reservedPyramid!.argMax(0, live.length)] || 0);
    const [cLive, cReserved] = [pixel(palette.live), pixel(palette.free)];
    const times = app.state.axis === 'time' ? app.run.times : null;
    for (let column = 0; column < raster.width; column++) {
      const [x0, x1] = [column, column + 1].map((edge) => (app.axis.end * edge) / raster.width);
      const from = times ? lowerBound(times, x0) : Math.ceil(x0);
      const to = times ? lowerBound(times, x1) : Math.ceil(x1);
      const first = Math.max(0, from - 1);
      if (first >= live.length || x0 > app.axis.ofEvent(app.run, app.run.events)) break;
      const last = Math.min(Math.max(to, first + 1), live.length);
      if (reserved) {
        const most = reserved[device.reservedPyramid!.argMax(first, last)];
        raster.fill(column, raster.height * (1 - most / top), column + 1, raster.height, cReserved);
      }
      const most = live[device.livePyramid.argMax(first, last)];
      raster.fill(column, raster.height * (1 - most / top), column + 1, raster.height, cLive);
    }
  }

  private listen() {
    let start = NaN;
    const at = (event: PointerEvent) => {
      const { left } = this.canvas.getBoundingClientRect();
      const part = (event.clientX - left - GUTTER) / this.width;
      return Math.min(Math.max(part, 0), 1) * this.app.axis.end;
    };
    this.canvas.addEventListener('pointerdown', (event) => {
      start = at(event);
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener('pointermove', (event) => {
      if (Number.isNaN(start)) return;
      const x = at(event);
      if (Math.abs(x - start) < this.app.axis.end / 400) return;
      this.app.update({ x0: Math.min(x, start), x1: Math.max(x, start) });
    });
    this.canvas.addEventListener('pointerup', (event) => {
      const x = at(event);
      const { x0, x1 } = this.app.state;
      if (Math.abs(x - start) < this.app.axis.end / 400) this.app.pan(x - (x0 + x1) / 2);
      start = NaN;
    });
    this.canvas.addEventListener('dblclick', () => this.app.fit());
  }
}
