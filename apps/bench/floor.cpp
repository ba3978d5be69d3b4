#include "floor.hpp"

#include "child.hpp"
#include "harness.hpp"

#include <gpuactors/bench/messages.pb.h>
#include <gpuactors/wire/certificates.hpp>
#include <gpuactors/wire/messages.hpp>

#include <caf/io/all.hpp>
#include <caf/openssl/all.hpp>
#include <caf/scoped_actor.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace gpuactors::bench {

namespace {

struct Config : caf::actor_system_config {
  explicit Config(const std::string& certificates) {
    caf_version::set_scheduler(*this, 1);
#if GPUACTORS_CAF_017
    const std::string prefix;
    load<caf::io::middleman>();
    if (!certificates.empty())
      load<caf::openssl::manager>();
#else
    const std::string prefix = "caf.";
    caf::io::middleman::add_module_options(*this);
    load<caf::io::middleman>();
    if (!certificates.empty()) {
      caf::openssl::manager::add_module_options(*this);
      load<caf::openssl::manager>();
    }
#endif
    set(prefix + "middleman.workers", std::size_t{0});
    if (certificates.empty())
      return;
    const auto found = CertificateFolder{certificates}.ensure();
    if (!found) {
      fmt::print(stderr, "gpuactors-bench: {}\n", found.error().message());
      std::exit(1);
    }
    const auto& files = *found;
#if GPUACTORS_CAF_017
    openssl_certificate = files.certificate.string();
    openssl_key = files.key.string();
    openssl_cafile = files.authority.string();
#else
    set("caf.openssl.certificate", files.certificate.string());
    set("caf.openssl.key", files.key.string());
    set("caf.openssl.cafile", files.authority.string());
#endif
  }
};

caf::behavior echo() {
  return {[](const std::string& in) { return in; }, [](const Payload& in) { return in; }};
}

/// The same for texts. A number asks for the work, on the thread that has made it.
caf::behavior work(const MakeWork& make_work) {
  return {[](const std::string& in) { return in; },
          [work = make_work()](std::uint64_t in) {
            work();
            return in;
          }};
}

[[noreturn]] void give_up(const caf::error& error) {
  fmt::print(stderr, "gpuactors-bench, plain CAF: {}\n", caf_version::render(error));
  std::exit(1);
}

/// Microseconds a request of what `message` makes, which an actor answers with the same.
template <class Make>
double ask_for(caf::actor_system& system, const caf::actor& server, int count, int flying, const Make& message) {
  using Message = decltype(message());
  caf::scoped_actor self{system};
  const auto start = now_ns();
  for (int done = 0; done < count; done += flying) {
    using Response = decltype(caf_version::ask(self.ptr(), server, message()));
    std::vector<Response> responses;
    responses.reserve(static_cast<std::size_t>(flying));
    for (int i = 0; i < flying; ++i)
      responses.push_back(caf_version::ask(self.ptr(), server, message()));
    for (auto& response : responses)
      std::move(response).receive([](const Message&) {}, [](caf::error& error) { give_up(error); });
  }
  constexpr double in_a_microsecond = 1'000;
  return (now_ns() - start) / count / in_a_microsecond;
}

double ask(caf::actor_system& system, const caf::actor& server, const FloorRun& run, int count) {
  const std::string text(message_bytes, 'x');
  return run.works ? ask_for(system, server, count, run.flying, [] { return std::uint64_t{1}; })
                   : ask_for(system, server, count, run.flying, [&] { return text; });
}

} // namespace

// -- in one process -------------------------------------------------------------------------------

LocalFloor::LocalFloor(Cluster& cluster)
  : cluster_(cluster), scheduled_(cluster.system().spawn(echo)),
    detached_(cluster.system().spawn<caf::detached>(echo)) {
  // nop
}

LocalFloor::~LocalFloor() {
  for (const auto& plain : {scheduled_, detached_})
    caf::anon_send_exit(plain, caf::exit_reason::user_shutdown);
}

double LocalFloor::ask(int count, int flying) const {
  const auto ask_one = [&](const caf::actor& plain) {
    return ask_for(cluster_.system(), plain, count, flying, [] { return Payload::of(Small{}); });
  };
  return std::min(ask_one(scheduled_), ask_one(detached_));
}

// -- in two ---------------------------------------------------------------------------------------

int serve_floor(const std::string& certificates, MakeWork make_work) {
  Config config{certificates};
  caf::actor_system system{config};
  const auto server = make_work ? system.spawn<caf::detached>(work, std::move(make_work)) : system.spawn(echo);
  const auto port =
      certificates.empty() ? caf::io::publish(server, 0, "127.0.0.1") : caf::openssl::publish(server, 0, "127.0.0.1");
  if (!port)
    give_up(port.error());
  fmt::print("127.0.0.1:{}\n", *port);
  std::fflush(stdout);
  wait_for_end();
  std::_Exit(0);
}

int ask_floor(const FloorRun& run) {
  Config config{run.certificates};
  caf::actor_system system{config};
  const auto colon = run.address.rfind(':');
  const auto host = run.address.substr(0, colon);
  const auto port = static_cast<std::uint16_t>(std::stoi(run.address.substr(colon + 1)));
  auto server = run.certificates.empty() ? caf::io::remote_actor(system, host, port)
                                         : caf::openssl::remote_actor(system, host, port);
  if (!server)
    give_up(server.error());
  ask(system, *server, run, run.count / 10 + run.flying);
  fmt::print("{}\n", ask(system, *server, run, run.count));
  std::fflush(stdout);
  std::_Exit(0);
}

} // namespace gpuactors::bench
