// A server for tests: the fronts over `TestService`. It says where it listens, and ends with its standard input.
#include "test_service.hpp"

#include <apps/serve/fronts.hpp>

#include <CLI/CLI.hpp>

#include <chrono>
#include <iostream>
#include <string>

namespace {

gpuactors::Duration milliseconds(int count) {
  return std::chrono::milliseconds{count};
}

} // namespace

int main(int argc, char** argv) {
  CLI::App parser{"Serves the test models"};
  serve::FrontOptions options;
  std::string http_host = "127.0.0.1";
  std::string token_file;
  std::string request_log;
  std::string certificate;
  std::string key;
  int idle_ms = 300'000;
  int transfer_ms = 30'000;
  int message_ms = 120'000;
  int greeting_ms = 10'000;
  int grace_ms = 2'000;
  int renewal_ms = 10'000;
  parser.add_option("--http-host", http_host);
  parser.add_option("--token-file", token_file);
  parser.add_option("--request-log", request_log);
  parser.add_option("--certificate", certificate);
  parser.add_option("--key", key);
  parser.add_option("--idle-ms", idle_ms);
  parser.add_option("--transfer-ms", transfer_ms);
  parser.add_option("--message-ms", message_ms);
  parser.add_option("--greeting-ms", greeting_ms);
  parser.add_option("--grace-ms", grace_ms);
  parser.add_option("--renewal-ms", renewal_ms);
  parser.add_option("--connections", options.limits.connections);
  parser.add_option("--request-bytes", options.limits.request_bytes);
  parser.add_option("--held-bytes", options.limits.held_bytes);
  CLI11_PARSE(parser, argc, argv);
  options.http = gpuactors::Endpoint{http_host, 0};
  options.grpc = gpuactors::Endpoint{"127.0.0.1", 0};
  options.token_file = token_file;
  options.request_log = request_log;
  if (!certificate.empty())
    options.tls = serve::TlsFiles{certificate, key};
  options.limits.idle = milliseconds(idle_ms);
  options.limits.transfer = milliseconds(transfer_ms);
  options.limits.greeting = milliseconds(greeting_ms);
  options.limits.message = milliseconds(message_ms);
  options.limits.renewal = milliseconds(renewal_ms);
  options.notice = [](const std::string& text) { std::cerr << text << std::endl; };

  serve::test::TestService service;
  auto fronts = serve::Fronts::open(service, options);
  if (!fronts)
    return std::cerr << to_string(fronts.error()) << "\n", 2;
  std::cout << fronts->http()->port << " " << fronts->grpc()->port << std::endl;
  for (std::string line; std::getline(std::cin, line);)
    continue;
  fronts->stop(milliseconds(grace_ms));
}
