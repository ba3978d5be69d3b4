// Watches on agents whose logs are read.
#include <gpuactors/cluster/detail/agent_watches.hpp>

#include <support/catch.hpp>
#include <support/eventually.hpp>

#include <wire/system.hpp>

#include <memory>

using namespace gpuactors;
using namespace gpuactors::test;

TEST_CASE("an agent whose log is read again and again is watched once, until it is gone", "[cluster]") {
  System system;
  RequestPort port{system.get(), [](MessageContent&) {}};
  const auto watches = std::make_shared<detail::AgentWatches>();
  const auto body = [](caf::event_based_actor*, int) { return caf::behavior{[](int) {}}; };
  const auto agent = caf::actor_cast<caf::strong_actor_ptr>(system.get().spawn(body, 0));
  const auto other = caf::actor_cast<caf::strong_actor_ptr>(system.get().spawn(body, 0));
  const Error gone{Errc::unavailable, "the connection to the node is lost"};
  const auto lost = watches->watch(port, agent, gone);
  for (int i = 0; i < 10; ++i)
    CHECK(watches->watch(port, agent, gone) == lost);
  CHECK(watches->watch(port, other, gone) != lost);
  CHECK_FALSE(*lost);
  caf::anon_send_exit(agent, caf::exit_reason::user_shutdown);
  CHECK(eventually([&] { return lost->load(); }));
  // One that has ended is lost from the beginning.
  CHECK(eventually([&] { return watches->watch(port, agent, gone)->load(); }));
  CHECK_FALSE(*watches->watch(port, other, gone));
  caf::anon_send_exit(other, caf::exit_reason::user_shutdown);
  port.close();
}
