// Cached bytes by the only stream that can use them: they are stranded for all others. If free
// memory is not bound to streams, live bytes by stream.

import { App } from '../app';
import { streamColor } from '../colors';
import { sizeText } from '../format';
import { pixel } from '../palette';
import { GUTTER, Track } from './track';

export class StreamBytesTrack extends Track {
  private top: { key: string; bytes: number } = { key: '', bytes: 1 };

  constructor(app: App) {
    super(app, 'Bytes by stream', 'by-stream');
  }

  protected paint() {
    const { app, context } = this;
    const { device } = app;
    const bound = device.streams.some((share) => share.free);
    const layers = device.streams.map((share) => (bound ? share.free! : share.live));
    const key = `${app.state.run}/${app.state.device}`;
    if (this.top.key !== key) {
      let most = 1;
      for (let i = 0; i < (layers[0]?.length ?? 0); i++) {
        let sum = 0;
        for (const layer of layers) sum += Math.max(0, layer[i]);
        if (sum > most) most = sum;
      }
      this.top = { key, bytes: most * 1.08 };
    }
    const raster = this.pixels();
    raster.clear(pixel(app.palette.background));
    const colors = device.streams.map((share, group) => pixel(streamColor(app.palette, group, share.stream)));
    const columns = app.columnsOf(app.state.run, raster.width);
    const scale = raster.height / this.top.bytes;
    for (let column = 0; layers.length && column < columns.count; column++) {
      const event = columns.most[column];
      let at = raster.height;
      layers.forEach((layer, group) => {
        const next = at - Math.max(0, layer[event]) * scale;
        raster.fill(column, next, column + 1, at, colors[group]);
        at = next;
      });
    }
    this.show(raster);
    const name = bound ? 'Cached bytes by stream' : 'Live bytes by stream';
    this.canvas.setAttribute('aria-label', name);
    this.root.setAttribute('aria-label', name);
    this.label(bound ? 'Cached bytes' : 'Live bytes', 10, { bold: true });
    this.label('by stream', 25, { faint: true });
    this.label(`≤ ${sizeText(this.top.bytes / 1.08)}`, 40, { faint: true });
    context.fillStyle = app.palette.grid;
    context.fillRect(GUTTER, 0, this.width, 1);
  }
}
