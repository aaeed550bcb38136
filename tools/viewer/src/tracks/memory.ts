// Bytes over time: live, rounding, waiting, stranded for a stream, free. Their sum is the reserved
// memory. For each pixel, the event with the most live bytes is drawn, so that all peaks are
// visible. A darker part shows the event with the least live bytes.

import { App } from '../app';
import { roundStep } from '../axis';
import { Device } from '../device';
import { sizeText } from '../format';
import { pixel, mixed } from '../palette';
import { GUTTER, Track } from './track';

export class MemoryTrack extends Track {
  constructor(app: App) {
    super(app, 'Memory over time', 'memory');
  }

  /** The greatest value of all runs, which is the top of the track. */
  private top(): number {
    let top = 1;
    this.app.runs.forEach((_, run) => {
      const { levels, livePyramid, reservedPyramid } = this.app.deviceOf(run);
      top = Math.max(top, levels.active[livePyramid.argMax(0, levels.live.length)]);
      if (reservedPyramid) top = Math.max(top, levels.reserved![reservedPyramid.argMax(0, levels.live.length)] || 0);
      for (let i = 0; i < levels.active.length; i += 1) if (levels.active[i] > top) top = levels.active[i];
    });
    return top * 1.06;
  }

  private known: { key: string; top: number } = { key: '', top: 1 };

  protected paint() {
    const { app } = this;
    if (this.known.key !== String(app.state.device)) this.known = { key: String(app.state.device), top: this.top() };
    const { top } = this.known;
    const raster = this.pixels();
    const y = (bytes: number) => raster.height * (1 - bytes / top);
    raster.clear(pixel(app.palette.background));
    this.paintLayers(app.device, y);
    this.show(raster);
    this.paintGrid(top);
    app.runs.forEach((_, run) => run !== app.state.run && this.paintLines(run, top));
    this.paintMarks();
  }

  private paintLayers(device: Device, y: (bytes: number) => number) {
    const { app } = this;
    const raster = this.pixels();
    const { palette } = app;
    const { live, held, active, reserved } = device.levels;
    const stranded = device.strandedLevels(app.state.asker);
    const [cLive, cLow, cWaiting, cFree, cReserved] = [
      palette.live, palette.live, palette.waiting, palette.free, palette.reserved,
    ].map(pixel);
    const cRounding = pixel(mixed(palette.live, palette.background, 0.55));
    const cWaitingBack = pixel(mixed(palette.waiting, palette.background, 0.65));
    const cBand = pixel(mixed(palette.live, palette.background, 0.28));
    const cStranded = pixel(palette.stranded);
    const cStrandedBack = pixel(mixed(palette.stranded, palette.background, 0.72));
    let lastTop = -1;
    const columns = app.columnsOf(app.state.run, raster.width);
    for (let x = 0; x < columns.count; x++) {
      const most = columns.most[x];
      const least = columns.least[x];
      raster.fill(x, y(live[most]), x + 1, raster.height, cBand);
      raster.fill(x, y(live[least]), x + 1, raster.height, least === most ? cLive : cLow);
      if (held[most] > live[most]) raster.fill(x, y(held[most]), x + 1, y(live[most]), cRounding);
      if (active[most] > held[most]) {
        raster.fill(x, y(active[most]), x + 1, y(held[most]), cWaitingBack);
        raster.hatch(x, y(active[most]), x + 1, y(held[most]), cWaiting);
      }
      if (!reserved || Number.isNaN(reserved[most])) continue;
      const unusable = stranded ? stranded.stream[most] + (stranded.pool?.[most] ?? 0) : 0;
      const floor = Math.min(active[most] + unusable, reserved[most]);
      raster.fill(x, y(floor), x + 1, y(active[most]), cStrandedBack);
      raster.hatch(x, y(floor), x + 1, y(active[most]), cStranded);
      raster.fill(x, y(reserved[most]), x + 1, y(floor), cFree);
      const highest = device.reservedPyramid!.argMax(columns.from[x], columns.to[x]);
      const edge = Math.round(y(reserved[highest]));
      const step = lastTop < 0 ? edge : lastTop;
      raster.fill(x, Math.min(edge, step), x + 1, Math.max(edge, step) + this.ratio * 1.5, cReserved);
      lastTop = edge;
    }
  }

  private paintGrid(top: number) {
    const { context, app, height } = this;
    const step = binaryStep(top / 4);
    context.globalAlpha = 0.55;
    context.fillStyle = app.palette.grid;
    for (let bytes = step; bytes < top; bytes += step) {
      const y = Math.round(height * (1 - bytes / top));
      context.fillRect(GUTTER, y, this.width, 1);
    }
    context.globalAlpha = 1;
    for (let bytes = step; bytes < top; bytes += step) {
      const y = height * (1 - bytes / top);
      if (y > 22 && y < height - 6) this.sizeLabel(sizeText(bytes), y);
    }
    this.label('Memory', 10, { bold: true });
  }

  /** The other run: its reserved bytes, and its live bytes as a dashed line. */
  private paintLines(run: number, top: number) {
    const { context, app, height } = this;
    const device = app.deviceOf(run);
    const { live, reserved } = device.levels;
    const columns = app.columnsOf(run, Math.round(this.width));
    for (const values of [reserved, live]) {
      if (!values) continue;
      const pyramid = values === live ? device.livePyramid : device.reservedPyramid!;
      context.beginPath();
      for (let column = 0; column < columns.count; column++) {
        const y = height * (1 - values[pyramid.argMax(columns.from[column], columns.to[column])] / top);
        if (column) context.lineTo(GUTTER + column, y);
        else context.moveTo(GUTTER, y);
      }
      context.strokeStyle = app.palette.second;
      context.lineWidth = 1.75;
      context.setLineDash(values === live ? [5, 3] : []);
      context.stroke();
    }
    context.setLineDash([]);
  }

  private paintMarks() {
    const { context, app, height } = this;
    const { run, device } = app;
    const line = (x: number, color: string, text: string) => {
      const px = this.px(x);
      if (px < GUTTER || px > GUTTER + this.width) return;
      context.fillStyle = color;
      context.fillRect(Math.round(px), 0, 1.5, height);
      context.font = '600 10.5px system-ui, sans-serif';
      const w = context.measureText(text).width + 8;
      const left = px + w > GUTTER + this.width ? px - w : px;
      context.fillRect(left, 0, w, 15);
      context.fillStyle = app.palette.background;
      context.textAlign = 'left';
      context.textBaseline = 'middle';
      context.fillText(text, left + 4, 8);
    };
    line(app.axis.ofEvent(run, device.peak), app.palette.reserved, 'peak');
    if (!Number.isNaN(app.state.at)) line(app.state.at, app.palette.accent, 'here');
    for (const mark of run.marks) {
      const of = mark.device === null || mark.device === app.state.device;
      if (mark.kind === 'out of memory' && of) {
        line(app.axis.ofClock(run, mark.begin), app.palette.stranded, 'out of memory');
      }
    }
  }
}

/** A round number of bytes: a power of two, or a round multiple of a binary unit. */
export function binaryStep(bytes: number): number {
  const unit = bytes >= 2 ** 30 ? 2 ** 30 : bytes >= 2 ** 20 ? 2 ** 20 : bytes >= 1024 ? 1024 : 1;
  return bytes / unit >= 1 ? unit * roundStep(bytes / unit) : 2 ** Math.ceil(Math.log2(Math.max(bytes, 1)));
}
