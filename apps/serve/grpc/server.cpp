#include <apps/serve/grpc/answers.hpp>
#include <apps/serve/grpc/health.hpp>
#include <apps/serve/grpc/quiet.hpp>
#include <apps/serve/grpc/server.hpp>
#include <apps/serve/run_beside.hpp>

#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace serve {

using gpuactors::Endpoint;
using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

constexpr int unread_bytes = 64 << 10;
// Calls that one connection may have under way.
constexpr int streams_per_connection = 1'024;
// How long a connection may be silent before it is asked whether it still lives, and how long the answer may take.
constexpr int keepalive_ms = 60'000;
constexpr int keepalive_timeout_ms = 20'000;

// How often `stop` looks whether all calls are done, and how long clients that asked nothing then have for leaving.
constexpr std::chrono::milliseconds stop_look{5};
constexpr std::chrono::seconds goodbye_time{1};

/// The files, which were checked, are read again when they have changed.
std::shared_ptr<grpc::ServerCredentials> credentials_of(const FrontOptions& options) {
  if (!options.tls)
    return grpc::InsecureServerCredentials();
  const auto period = std::chrono::ceil<std::chrono::seconds>(options.limits.renewal).count();
  const auto files = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      options.tls->key.string(), options.tls->certificate.string(),
      static_cast<unsigned>(std::max<std::int64_t>(1, period)));
  grpc::experimental::TlsServerCredentialsOptions tls{files};
  tls.watch_identity_key_cert_pairs();
  tls.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  return grpc::experimental::TlsServerCredentials(tls);
}

int milliseconds(gpuactors::Duration time) {
  const auto count = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  return static_cast<int>(std::clamp<std::int64_t>(count, 1, std::numeric_limits<int>::max()));
}

} // namespace

class GrpcServer::Parts {
public:
  explicit Parts(std::shared_ptr<FrontState> front)
    : state_(std::make_shared<GrpcState>(std::move(front))), health_(state_), answers_(state_, methods()) {
    // nop
  }

  Result<void> listen(const Endpoint& endpoint) {
    const auto& options = state_->front->options;
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(to_string(endpoint), credentials_of(options), &port);
    builder.RegisterCallbackGenericService(&answers_);
    builder.SetMaxReceiveMessageSize(
        static_cast<int>(std::min<std::size_t>(options.limits.request_bytes, std::numeric_limits<int>::max())));
    builder.SetMaxSendMessageSize(std::numeric_limits<int>::max());
    grpc::ResourceQuota quota{"gpuactors-serve"};
    // What is on its way in, beside the messages that have arrived.
    builder.SetResourceQuota(quota.Resize(options.limits.held_bytes));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, streams_per_connection);
    // Nothing bounds how many connections there are: those on which nothing happens go soon.
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, milliseconds(options.limits.greeting));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                               milliseconds(std::min(options.limits.idle, options.limits.grpc_idle)));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive_timeout_ms);
    // What a stream may send that nobody reads: with probes, gRPC lets it have 4 MiB. A message that is being read gets
    // more as it comes.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, unread_bytes);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(options.limits.header_bytes));
    // gRPC unpacks a message whole before it looks at its size: a few MiB could become many GiB.
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
    builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
    // Else a second server at the same address would get some of the connections.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    server_ = builder.BuildAndStart();
    if (!server_ || port == 0)
      return fail(Errc::unavailable, fmt::format("cannot listen at {} for gRPC: the address is taken or not this "
                                                 "machine's, or certificate and key do not fit",
                                                 to_string(endpoint)));
    endpoint_ = {endpoint.host, static_cast<std::uint16_t>(port)};
    keep_quiet();
    return {};
  }

  void stop(gpuactors::Duration grace) {
    if (!server_)
      return;
    // What their clients read slowly, gRPC has written before they have read it.
    const auto leave_time = state_->open_inferences > 0 ? grace : std::min<gpuactors::Duration>(grace, goodbye_time);
    end_streams(*state_);
    health_.end();
    std::promise<void> ended;
    auto shutdown = run_beside([&] {
      server_->Shutdown(std::chrono::system_clock::now()
                        + std::chrono::duration_cast<std::chrono::system_clock::duration>(grace));
      ended.set_value();
    });
    // gRPC waits for connections too, which clients need not let go of.
    auto end = ended.get_future();
    while (state_->open_calls > 0 && end.wait_for(stop_look) == std::future_status::timeout)
      continue;
    if (end.wait_for(leave_time) == std::future_status::timeout)
      grpc_server_cancel_all_calls(server_->c_server());
    if (shutdown.joinable())
      shutdown.join();
    server_->Wait();
    server_.reset();
  }

  [[nodiscard]] const Endpoint& endpoint() const noexcept {
    return endpoint_;
  }

private:
  Methods methods() {
    Methods methods;
    add_inference_methods(methods, state_);
    health_.add_methods(methods);
    return methods;
  }

  std::shared_ptr<GrpcState> state_;
  HealthAnswers health_;
  GrpcAnswers answers_;
  std::unique_ptr<grpc::Server> server_;
  Endpoint endpoint_;
};

GrpcServer::GrpcServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {
  // nop
}

GrpcServer::~GrpcServer() {
  stop({});
}

Result<std::unique_ptr<GrpcServer>> GrpcServer::open(std::shared_ptr<FrontState> state, const Endpoint& endpoint) {
  std::unique_ptr<Parts> parts;
  try {
    parts = std::make_unique<Parts>(std::move(state));
  } catch (const std::system_error& error) { // from std::thread
    return fail(Errc::unavailable, fmt::format("the gRPC front has no thread: {}", error.what()));
  }
  GPUACTORS_TRY(parts->listen(endpoint));
  return std::unique_ptr<GrpcServer>{new GrpcServer{std::move(parts)}};
}

const Endpoint& GrpcServer::endpoint() const noexcept {
  return parts_->endpoint();
}

void GrpcServer::stop(gpuactors::Duration grace) {
  parts_->stop(grace);
}

} // namespace serve
