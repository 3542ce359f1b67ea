"""A strict OTLP server: grpcio, or Python's own HTTP server, with the messages of opentelemetry-proto.

server.py http|grpc PORT FILE COMPLAINTS LARGEST [CERTIFICATE KEY]

Every request is written to FILE as one line of OTLP JSON before it is answered. Every fault, even one that other servers
accept, is written to COMPLAINTS as one line. Over gRPC, a message of more than LARGEST bytes is refused.
"""

import base64
import concurrent.futures
import gzip
import http.server
import json
import ssl
import sys
import threading

import grpc
from google.protobuf.json_format import MessageToDict

import strict
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

TRACES = (trace_service_pb2.ExportTraceServiceRequest, trace_service_pb2.ExportTraceServiceResponse)
LOGS = (logs_service_pb2.ExportLogsServiceRequest, logs_service_pb2.ExportLogsServiceResponse)
METRICS = (metrics_service_pb2.ExportMetricsServiceRequest, metrics_service_pb2.ExportMetricsServiceResponse)

PATHS = {"/v1/traces": TRACES, "/v1/logs": LOGS, "/v1/metrics": METRICS}


class Book:
    """The files for received requests and for complaints."""

    def __init__(self, received, complaints):
        self.received = open(received, "a", encoding="utf-8")
        self.complaints = open(complaints, "a", encoding="utf-8")
        self.lock = threading.Lock()

    def write(self, message, length):
        line = json.dumps(as_otlp_json(message))
        with self.lock:
            for complaint in strict.complaints(message, length):
                self.complain(complaint)
            self.received.write(line + "\n")
            self.received.flush()

    def complain(self, text):
        self.complaints.write(text + "\n")
        self.complaints.flush()


def as_otlp_json(message):
    return hex_ids(MessageToDict(message, use_integers_for_enums=True))


def hex_ids(tree):
    """Returns the tree with ids in hexadecimal, as in OTLP JSON. Protobuf's JSON has them in base64."""
    if isinstance(tree, list):
        return [hex_ids(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    ids = ("traceId", "spanId", "parentSpanId")
    return {key: base64.b64decode(item).hex() if key in ids else hex_ids(item) for key, item in tree.items()}


def serve_grpc(port, book, largest, identity):
    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(max_workers=4),
        options=[("grpc.max_receive_message_length", largest), ("grpc.so_reuseport", 0)],
    )
    services = [
        ("opentelemetry.proto.collector.trace.v1.TraceService", TRACES),
        ("opentelemetry.proto.collector.logs.v1.LogsService", LOGS),
        ("opentelemetry.proto.collector.metrics.v1.MetricsService", METRICS),
    ]
    for name, messages in services:
        handler = grpc.method_handlers_generic_handler(name, {"Export": unary(book, *messages)})
        server.add_generic_rpc_handlers((handler,))
    address = f"127.0.0.1:{port}"
    if identity:
        certificate, key = (open(path, "rb").read() for path in identity)
        bound = server.add_secure_port(address, grpc.ssl_server_credentials([(key, certificate)]))
    else:
        bound = server.add_insecure_port(address)
    if bound != port:
        sys.exit(f"port {port} is taken")
    server.start()
    server.wait_for_termination()


def unary(book, request_type, response_type):
    # Gets the received bytes, so that their length can be compared.
    def export(body, _context):
        message = request_type.FromString(body)
        book.write(message, len(body))
        return response_type()

    return grpc.unary_unary_rpc_method_handler(
        export, request_deserializer=None, response_serializer=response_type.SerializeToString
    )


def serve_http(port, book, _largest, identity):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["Content-Encoding"] == "gzip":
                body = gzip.decompress(body)
            if self.headers["Content-Type"] != "application/x-protobuf":
                book.complain(f"content type {self.headers['Content-Type']}")
            request_type, response_type = PATHS[self.path]
            book.write(request_type.FromString(body), len(body))
            answer = response_type().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    if identity:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*identity)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


def main():
    transport, port, received, complaints, largest, *identity = sys.argv[1:]
    serve = {"http": serve_http, "grpc": serve_grpc}[transport]
    serve(int(port), Book(received, complaints), int(largest), identity)


if __name__ == "__main__":
    main()
