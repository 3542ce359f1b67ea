// A hand-written gRPC server on Node's http2, and an OTLP/HTTP server on Node's http. The server does not decode
// protobuf: it writes every body as one line in hexadecimal before it answers.
//
// node server.mjs http|grpc PORT FILE [--identity CERTIFICATE KEY] [--manner MANNER]

import { openSync, readFileSync, writeSync } from "node:fs";
import http from "node:http";
import http2 from "node:http2";
import https from "node:https";
import { gunzipSync } from "node:zlib";

const SIGNALS = {
  "/v1/traces": "traces",
  "/v1/logs": "logs",
  "/v1/metrics": "metrics",
  "/opentelemetry.proto.collector.trace.v1.TraceService/Export": "traces",
  "/opentelemetry.proto.collector.logs.v1.LogsService/Export": "logs",
  "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": "metrics",
};

// The HTTP/2 settings of the server for each value of `--manner`.
const SETTINGS = {
  usual: {},
  // closes connections that are idle for a fifth of a second
  impatient: {},
  // no dynamic table: the client's next block must begin with a size update
  "no-table": { headerTableSize: 0 },
  // a window of one byte: even the prefix of a message arrives in pieces
  "small-window": { initialWindowSize: 1 },
  // other sizes of frames and windows after every request
  changing: {},
};
const CHANGES = [
  { initialWindowSize: 7, maxFrameSize: 1 << 20, headerTableSize: 0 },
  { initialWindowSize: 1 << 20, maxFrameSize: 1 << 14, headerTableSize: 4096 },
  { initialWindowSize: 1000, maxFrameSize: (1 << 24) - 1, headerTableSize: 100 },
];

// Idle time in milliseconds after which an impatient server closes a connection.
const IDLE = 200;

const [transport, port, path, ...rest] = process.argv.slice(2);
const options = readOptions(rest);
const book = openSync(path, "a");
const server = transport === "grpc" ? grpcServer() : httpServer();
server.listen(Number(port), "127.0.0.1");

function readOptions(words) {
  const options = { identity: {}, manner: "usual" };
  while (words.length > 0) {
    const word = words.shift();
    if (word === "--identity") {
      options.identity = { cert: readFileSync(words.shift()), key: readFileSync(words.shift()) };
    } else if (word === "--manner" && words[0] in SETTINGS) {
      options.manner = words.shift();
    } else {
      throw new Error(`${word}: unknown argument`);
    }
  }
  return options;
}

function isSecure() {
  return options.identity.key !== undefined;
}

function write(signal, body) {
  writeSync(book, JSON.stringify({ signal, protobuf: body.toString("hex") }) + "\n");
}

function grpcServer() {
  const settings = SETTINGS[options.manner];
  const server = isSecure()
    ? http2.createSecureServer({ ...options.identity, settings })
    : http2.createServer({ settings });
  if (options.manner === "impatient") {
    server.on("session", (session) => session.setTimeout(IDLE, () => session.close()));
  }
  server.on("stream", (stream, headers) => {
    const parts = [];
    stream.on("data", (part) => parts.push(part));
    stream.on("error", () => {});
    stream.on("end", () => answerGrpc(stream, headers, Buffer.concat(parts)));
  });
  return server;
}

let answered = 0;

function answerGrpc(stream, headers, framed) {
  const fault = grpcFault(headers, framed);
  const head = { ":status": 200, "content-type": "application/grpc" };
  if (fault !== undefined) {
    stream.respond({ ...head, "grpc-status": "3", "grpc-message": encodeURIComponent(fault) }, { endStream: true });
    return;
  }
  const message = framed.subarray(5);
  write(SIGNALS[headers[":path"]], framed[0] === 1 ? gunzipSync(message) : message);
  if (options.manner === "changing") {
    stream.session.settings(CHANGES[answered % CHANGES.length]);
  }
  answered += 1;
  stream.respond(head, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  // an empty message: nothing was rejected
  stream.end(Buffer.alloc(5));
}

// Returns the reason why a strict gRPC server would refuse the call.
function grpcFault(headers, framed) {
  const expected = {
    ":method": "POST",
    ":scheme": isSecure() ? "https" : "http",
    te: "trailers",
  };
  for (const [name, value] of Object.entries(expected)) {
    if (headers[name] !== value) {
      return `${name} is ${headers[name]} instead of ${value}`;
    }
  }
  if (!/^127\.0\.0\.1:[0-9]+$/.test(headers[":authority"])) {
    return `:authority is ${headers[":authority"]}`;
  }
  if (!/^application\/grpc(\+proto)?$/.test(headers["content-type"])) {
    return `content-type is ${headers["content-type"]}`;
  }
  if (!/^[0-9]{1,8}[HMSmun]$/.test(headers["grpc-timeout"])) {
    return `grpc-timeout is ${headers["grpc-timeout"]}`;
  }
  if (!(headers[":path"] in SIGNALS)) {
    return `no service at ${headers[":path"]}`;
  }
  if (framed.length < 5 || framed.readUInt32BE(1) !== framed.length - 5 || framed[0] > 1) {
    return `a body of ${framed.length} bytes that begins ${framed.subarray(0, 5).toString("hex")}`;
  }
  if ((framed[0] === 1) !== (headers["grpc-encoding"] === "gzip")) {
    return `flag ${framed[0]} with grpc-encoding ${headers["grpc-encoding"]}`;
  }
  return undefined;
}

// Replaces Node's keepAliveTimeout, to which Node adds a second.
function hangUpWhenIdle({ socket }, response) {
  clearTimeout(socket.idle);
  response.on("finish", () => {
    socket.idle = setTimeout(() => socket.end(), IDLE);
  });
}

function httpServer() {
  const answer = (request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("error", () => {});
    request.on("end", () => {
      const signal = SIGNALS[request.url];
      if (request.method !== "POST" || signal === undefined || request.headers["content-type"] !== "application/x-protobuf") {
        response.writeHead(400).end();
        return;
      }
      const body = Buffer.concat(parts);
      write(signal, request.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body);
      response.writeHead(200, { "content-type": "application/x-protobuf", "content-length": 0 }).end();
    });
  };
  const server = isSecure() ? https.createServer(options.identity, answer) : http.createServer(answer);
  if (options.manner === "impatient") {
    server.on("request", hangUpWhenIdle);
  }
  return server;
}
