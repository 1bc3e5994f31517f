'use strict';
// A page that is opened from a disk may start no worker, so search runs in an
// empty frame: this gives it the part of a worker that search uses.
window.IFrameWorker = class extends EventTarget {
  constructor(address) {
    super();
    this.waiting = [];
    const frame = document.createElement('iframe');
    frame.hidden = true;
    document.body.append(frame);
    this.inside = frame.contentWindow;
    this.inside.postMessage = data =>
      this.dispatchEvent(new MessageEvent('message', {data}));
    const script = this.inside.document.createElement('script');
    script.src = new URL(address, document.baseURI).href;
    script.onload = () => {
      for (const data of this.waiting) this.send(data);
      this.waiting = null;
    };
    this.inside.document.body.append(script);
  }
  send(data) {
    this.inside.dispatchEvent(new this.inside.MessageEvent('message', {data}));
  }
  postMessage(data) {
    if (this.waiting) this.waiting.push(data);
    else this.send(data);
  }
  terminate() {}
};
if (location.protocol === 'file:') window.Worker = window.IFrameWorker;
