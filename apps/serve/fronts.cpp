#include <apps/serve/fronts.hpp>
#include <apps/serve/grpc/server.hpp>
#include <apps/serve/http/server.hpp>
#include <apps/serve/protocol/access.hpp>
#include <apps/serve/protocol/front_state.hpp>
#include <apps/serve/protocol/renewal.hpp>
#include <apps/serve/run_beside.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace serve {

using gpuactors::Endpoint;
using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

// Files that are open for other things than connections.
constexpr std::size_t other_files = 256;

/// Lets the process open as many files as it may, and bounds the connections by that.
void fit_connections(std::size_t& connections) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0)
    return;
  // All that it may: gRPC bounds no connections of its own, and takes none any more once it has been refused a file.
  if (files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
    ::getrlimit(RLIMIT_NOFILE, &files);
  }
  const auto room = files.rlim_cur > 2 * other_files ? files.rlim_cur - other_files : files.rlim_cur / 2;
  connections = std::min<std::size_t>(connections, room);
}

} // namespace

struct Fronts::Parts {
  std::shared_ptr<FrontState> state;
  std::unique_ptr<HttpServer> http;
  std::unique_ptr<GrpcServer> grpc;
  std::unique_ptr<Renewal> renewal;

  ~Parts() {
    renewal = nullptr;
    http = nullptr;
    grpc = nullptr;
    end_pools();
  }

  Result<std::string> renew_tokens() const {
    const auto& file = state->options.token_file;
    GPUACTORS_LET(tokens, Tokens::read(file));
    state->tokens.set(std::move(tokens));
    return "the tokens were read again from " + file.string();
  }

  Result<std::string> renew_tls() const {
    const auto& files = *state->options.tls;
    // gRPC's library looks after the files itself.
    GPUACTORS_TRY(http ? http->renew_tls() : check_tls(files));
    return "the certificate was read again from " + files.certificate.string();
  }

  /// @param tokens, tls  the stamps of the files from before they were read.
  Result<void> look_after_files(Renewal::Stamps tokens, Renewal::Stamps tls) {
    std::vector<Renewal::Watched> files;
    const auto& options = state->options;
    if (!options.token_file.empty())
      files.push_back(Renewal::watched(
          {options.token_file}, std::move(tokens), [this] { return renew_tokens(); }, options.notice));
    if (options.tls)
      files.push_back(Renewal::watched(
          {options.tls->certificate, options.tls->key}, std::move(tls), [this] { return renew_tls(); },
          options.notice));
    if (files.empty())
      return {};
    GPUACTORS_LET(started, Renewal::start(std::move(files), options.limits.renewal));
    renewal = std::move(started);
    return {};
  }

  /// Their work holds the state: it must not be the last to do so.
  void end_pools() const {
    if (state == nullptr)
      return;
    state->heavy.end();
    state->repository.end();
  }
};

Fronts::Fronts(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {
  // nop
}

Fronts::Fronts(Fronts&&) noexcept = default;
Fronts& Fronts::operator=(Fronts&&) noexcept = default;

Fronts::~Fronts() {
  if (parts_)
    stop({});
}

Result<Fronts> Fronts::open(Service& service, FrontOptions options) {
  if (!options.http && !options.grpc)
    return fail(Errc::invalid_argument, "there is no address to listen at, neither for HTTP nor for gRPC");
  auto token_stamps = Renewal::stamps_of({options.token_file});
  auto tls_stamps = options.tls ? Renewal::stamps_of({options.tls->certificate, options.tls->key}) : Renewal::Stamps{};
  Tokens tokens;
  if (!options.token_file.empty()) {
    GPUACTORS_LET(read, Tokens::read(options.token_file));
    tokens = std::move(read);
  }
  for (const auto& endpoint : {options.http, options.grpc})
    if (endpoint)
      GPUACTORS_TRY(check_exposure(*endpoint, tokens.required(), options.tls.has_value()));
  if (options.tls)
    GPUACTORS_TRY(check_tls(*options.tls));
  if (options.tls)
    options.limits.connections = std::min(options.limits.connections, options.limits.tls_connections);
  fit_connections(options.limits.connections);
  auto parts = std::make_unique<Parts>();
  parts->state = std::make_shared<FrontState>(service, std::move(options), std::move(tokens));
  const auto& chosen = parts->state->options;
  if (!chosen.request_log.empty()) {
    GPUACTORS_LET(log, RequestLog::open(chosen.request_log, chosen.notice));
    parts->state->log = std::move(log);
  }
  if (chosen.http) {
    GPUACTORS_LET(server, HttpServer::open(parts->state, *chosen.http));
    parts->http = std::move(server);
  }
  if (chosen.grpc) {
    GPUACTORS_LET(server, GrpcServer::open(parts->state, *chosen.grpc));
    parts->grpc = std::move(server);
  }
  GPUACTORS_TRY(parts->look_after_files(std::move(token_stamps), std::move(tls_stamps)));
  return Fronts{std::move(parts)};
}

std::optional<Endpoint> Fronts::http() const {
  return parts_->http ? std::optional{parts_->http->endpoint()} : std::nullopt;
}

std::optional<Endpoint> Fronts::grpc() const {
  return parts_->grpc ? std::optional{parts_->grpc->endpoint()} : std::nullopt;
}

FrontCounts Fronts::counts() const {
  const auto& state = *parts_->state;
  FrontCounts counts;
  counts.http_connections = state.http_connections;
  counts.http_refused = state.http_refused;
  counts.http_requests = state.http_requests;
  counts.grpc_requests = state.grpc_requests;
  state.http_answers.each([&](int status, std::uint64_t count) { counts.http_answers[status] = count; });
  state.grpc_answers.each([&](int code, std::uint64_t count) { counts.grpc_answers[code] = count; });
  counts.held_bytes = state.held->now();
  return counts;
}

void Fronts::turn(std::function<void()> done) const {
  if (parts_->http)
    parts_->http->turn(std::move(done));
  else
    done();
}

void Fronts::leave() {
  parts_->state->leaving = true;
}

void Fronts::stop(gpuactors::Duration grace) {
  parts_->renewal = nullptr;
  parts_->state->stopping = true;
  // Both at once: a client of one that takes its time costs those of the other none.
  std::thread grpc;
  if (parts_->grpc)
    grpc = run_beside([&] { parts_->grpc->stop(grace); });
  if (parts_->http)
    parts_->http->stop(grace);
  if (grpc.joinable())
    grpc.join();
  parts_->end_pools();
}

} // namespace serve
