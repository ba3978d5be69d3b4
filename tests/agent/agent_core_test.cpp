// What an agent makes of orders, and of workers that come up, fail, stick and lose devices.
#include <support/catch.hpp>

#include <agent/core_scene.hpp>

#ifdef CAF_MAJOR_VERSION
#error "the agent's core has come to include CAF"
#endif

using namespace agent_test;

TEST_CASE("orders to a worker that is not up yet reach it, in order, when it is") {
  Scene scene;
  scene.lease(1);
  scene.lease(2);
  CHECK(scene.world.orders.empty());
  scene.come_up(1);
  CHECK(scene.world.orders == std::vector<std::string>{"worker 1: start 1", "worker 1: start 2"});
}

TEST_CASE("a lease that ends before its worker is up is never started") {
  Scene scene;
  scene.lease(1);
  scene.lease(2);
  scene.order_end(1, std::chrono::seconds{5});
  CHECK(scene.end_of(1) != nullptr);
  scene.come_up(1);
  CHECK(scene.world.orders == std::vector<std::string>{"worker 1: start 2"});
}

TEST_CASE("leases on one device share a worker, and an isolated one has its own, which ends with it") {
  Scene scene;
  scene.lease(1);
  scene.lease(2);
  scene.lease(3, {.isolated = true});
  REQUIRE(scene.world.workers.size() == 2);
  CHECK(scene.world.workers[1].environment.at("CUDA_VISIBLE_DEVICES") == "GPU-0");
  scene.come_up(1);
  scene.come_up(2);
  scene.end(1);
  CHECK(scene.end_of(1) != nullptr);
  scene.end(3);
  CHECK(scene.ordered("worker 2: die 0"));
  CHECK(scene.end_of(3) == nullptr); // its memory is free when the process is gone
  scene.core->worker_lost(2);
  CHECK(scene.end_of(3) == nullptr);
  scene.core->worker_exited(2, "ended with exit code 0");
  CHECK(scene.end_of(3) != nullptr);
  CHECK(scene.world.notices.find("ended with exit code 0") == std::string::npos);
}

TEST_CASE("a process whose lease has ended has a while to send the rest before it is killed") {
  Scene scene;
  scene.lease(1, {.isolated = true});
  scene.come_up(1);
  scene.end(1);
  CHECK(scene.world.last_words == std::vector<std::string>{""});
  scene.pass(Duration{limits::last_words} / 2);
  // Of its connections, that to its agent may end first.
  scene.core->worker_lost(1);
  CHECK(scene.world.killed.empty());
  scene.pass(Duration{limits::last_words} / 2);
  CHECK(scene.world.killed.count(1) == 1);
  CHECK(scene.end_of(1) == nullptr);
  scene.core->worker_exited(1, "was killed");
  CHECK(scene.end_of(1) != nullptr);
}

TEST_CASE("a process waits for what borrows from its lease, and then has a while to send the rest") {
  Scene scene;
  scene.lease(1, {.isolated = true});
  scene.come_up(1);
  scene.lease(2, {.parent = 1});
  scene.end(1);
  CHECK_FALSE(scene.ordered("worker 1: die 0"));
  scene.end(2);
  CHECK(scene.ordered("worker 1: die 0"));
  CHECK(scene.world.killed.empty());
}

TEST_CASE("a worker that does not come up in time is killed, and its leases end") {
  Scene scene;
  scene.lease(1);
  scene.pass(limits::worker_start);
  REQUIRE(scene.world.killed.count(1) == 1);
  CHECK(scene.end_of(1) == nullptr);
  scene.core->worker_exited(1, "was killed");
  REQUIRE(scene.end_of(1) != nullptr);
  CHECK(scene.end_of(1)->error() == static_cast<std::uint32_t>(Errc::worker_died));
}

TEST_CASE("what ends with a process says what it wrote at last itself, and not what its neighbours did") {
  Scene scene;
  for (std::uint64_t id = 1; id <= 3; ++id)
    scene.lease(id);
  scene.lease(4, {.isolated = true});
  scene.come_up(1);
  scene.come_up(2);
  LastLines lines;
  lines.add(LeaseId{1}, "all is well");
  lines.add(LeaseId{2}, "no room");
  scene.core->worker_exited(1, "was killed", lines);
  scene.core->worker_lost(1);
  const std::string ended = "the worker process for device 0 was killed";
  REQUIRE(scene.end_of(3) != nullptr);
  CHECK(scene.end_of(1)->text() == ended + "; its last line was \"all is well\"");
  CHECK(scene.end_of(2)->text() == ended + "; its last line was \"no room\"");
  CHECK(scene.end_of(3)->text() == ended);
  CHECK(scene.world.notices.find("was killed; its last line was \"no room\"") != std::string::npos);
  // All that a process of its own says is its own.
  LastLines alone;
  alone.add(LeaseId{4}, "begun");
  alone.add(LeaseId{}, "terminate called");
  scene.core->worker_exited(2, "was killed", alone);
  scene.core->worker_lost(2);
  REQUIRE(scene.end_of(4) != nullptr);
  CHECK(scene.end_of(4)->text() == "the worker process for lease 4 was killed; its last line was \"terminate called\"");
}

TEST_CASE("a worker that cannot be started ends its lease with the reason") {
  Scene scene;
  scene.world.refuses_workers = Errc::unavailable;
  scene.lease(1);
  scene.pass({});
  REQUIRE(scene.end_of(1) != nullptr);
  CHECK(scene.end_of(1)->text().find("no room for another process") != std::string::npos);
}

TEST_CASE("a sticky error costs a device one loss, however many leases its worker had") {
  Scene scene;
  for (std::uint64_t id = 1; id <= 4; ++id)
    scene.lease(id);
  scene.come_up(1);
  for (std::uint64_t id = 1; id <= 4; ++id)
    scene.lose(id);
  CHECK(scene.world.killed.count(1) == 1);
  CHECK(scene.world.faults.empty());
}

TEST_CASE("a device that worker after worker loses is out of use") {
  Scene scene;
  for (std::uint64_t id = 1; id <= limits::device_losses; ++id) {
    CHECK(scene.world.faults.empty());
    scene.lease(id);
    scene.come_up(id);
    scene.lose(id);
    scene.core->worker_exited(id, "was killed");
    scene.pass(std::chrono::seconds{30});
  }
  REQUIRE(scene.world.faults.size() == 1);
  CHECK(scene.world.notices.find("3 workers lost it by sticky errors within 10 minutes; it is out of use")
        != std::string::npos);
  scene.lease(100);
  REQUIRE(scene.end_of(100) != nullptr);
  CHECK(scene.end_of(100)->error() == static_cast<std::uint32_t>(Errc::lease_revoked));
}

TEST_CASE("losses that are far apart do not add up") {
  Scene scene;
  for (std::uint64_t id = 1; id <= 2 * limits::device_losses; ++id) {
    scene.lease(id);
    scene.come_up(id);
    scene.lose(id);
    scene.core->worker_exited(id, "was killed");
    scene.pass(limits::device_loss_window);
  }
  CHECK(scene.world.faults.empty());
}

TEST_CASE("a worker whose device failed is killed when its own time is over, and not when it had to be up") {
  constexpr Duration grace = limits::fault_grace;
  Scene scene;
  scene.lease(1);
  scene.pass(limits::worker_start - grace / 2);
  scene.come_up(1);
  scene.fail_device(0);
  CHECK(scene.ordered("worker 1: fault 0"));
  scene.pass(grace * 3 / 4);
  CHECK(scene.world.killed.empty());
  scene.pass(grace / 2);
  CHECK(scene.world.killed.count(1) == 1);
}

TEST_CASE("an agent starts no process with a variable that is not for users, whoever asks") {
  Scene scene;
  for (const auto* name : {"LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "OPENSSL_CONF", "OTEL_EXPORTER_OTLP_ENDPOINT", "a b"})
    scene.lease(1, {.device = -1, .variable = name});
  CHECK(scene.world.workers.empty());
  scene.lease(2, {.device = -1, .variable = "COLOUR"});
  REQUIRE(scene.world.workers.size() == 1);
  CHECK(scene.world.workers[0].environment.at("COLOUR") == "x");
}

TEST_CASE("a process of one lease has fewer hardware queues, unless somebody has chosen their number") {
  constexpr const char* variable = "CUDA_DEVICE_MAX_CONNECTIONS";
  AgentOptions options;
  options.limits_queues = true;
  Scene scene{{}, 2, options};
  scene.lease(1, {.isolated = true});
  scene.lease(2);
  scene.lease(3, {.variable = variable});
  scene.lease(4, {.device = -1, .isolated = true});
  REQUIRE(scene.world.workers.size() == 4);
  CHECK(scene.world.workers[0].environment.at(variable) == std::to_string(limits::lease_queues));
  // Many leases share it.
  CHECK(scene.world.workers[1].environment.count(variable) == 0);
  CHECK(scene.world.workers[2].environment.at(variable) == "x");
  CHECK(scene.world.workers[3].environment.count(variable) == 0);

  Scene chosen;
  chosen.lease(1, {.isolated = true});
  CHECK(chosen.world.workers.at(0).environment.count(variable) == 0);
}

TEST_CASE("an agent that comes to another broker tells it what it holds, and what has ended itself") {
  Scene scene;
  scene.lease(1);
  scene.lease(2);
  scene.come_up(1);
  scene.begin(1);
  auto own = lease_end(2, 1);
  own.set_by_itself(true);
  scene.core->ended(own);
  scene.core->broker_changed(nullptr);
  scene.core->broker_changed(std::make_shared<Somebody>(0));
  CHECK(scene.world.told_held == std::set<std::uint64_t>{1});
  CHECK(scene.world.registration.held_ahead() == 1);
  REQUIRE(scene.world.registration.own_ends_size() == 1);
  CHECK(scene.world.registration.own_ends(0).end().lease() == 2);
}

TEST_CASE("the answer to a registration over a lost connection counts for nothing") {
  Scene scene;
  v1::DrainNode leave;
  leave.set_deadline_ms(1000);
  scene.core->broker_changed(nullptr);
  scene.core->broker_changed(std::make_shared<Somebody>(0));
  const auto late = scene.world.answer;
  scene.core->broker_changed(nullptr);
  late(Result<void>{});
  CHECK(scene.world.times_registered == 1);
  scene.lease(1);
  scene.core->leave(leave);
  CHECK(scene.world.drains.empty()); // there is nobody to ask
}

TEST_CASE("a node counts as registered until the broker that has accepted it is lost or replaced") {
  Scene scene;
  CHECK(scene.world.times_registered == 1);
  CHECK(scene.world.times_unregistered == 0);
  scene.core->broker_changed(nullptr);
  CHECK(scene.world.times_unregistered == 1);
  scene.core->broker_changed(nullptr);
  CHECK(scene.world.times_unregistered == 1);
  scene.core->broker_changed(std::make_shared<Somebody>(0));
  CHECK(scene.world.times_registered == 1);
  scene.world.answer(Result<void>{});
  CHECK(scene.world.times_registered == 2);
  // Another one before the loss of this one was noticed.
  scene.core->broker_changed(std::make_shared<Somebody>(1));
  CHECK(scene.world.times_unregistered == 2);
  scene.world.answer(Result<void>{fail(Errc::already_exists, "node \"node\" is registered")});
  CHECK(scene.world.times_registered == 2);
  CHECK(scene.world.times_unregistered == 2);
}

TEST_CASE("the broker hears when the node's certificate ends, at once and with each registration") {
  Scene scene;
  v1::HolderUsage message;
  message.mutable_certificate()->set_until_unix_s(1'800'000'000);
  scene.core->used(message);
  REQUIRE(scene.world.certificates.size() == 1);
  CHECK(scene.world.certificates[0].node() == "node");
  CHECK(scene.world.certificates[0].agent() == scene.world.registration.agent());
  CHECK(scene.world.certificates[0].certificate().until_unix_s() == 1'800'000'000);
  scene.core->broker_changed(nullptr);
  message.mutable_certificate()->set_until_unix_s(1'900'000'000);
  scene.core->used(message);
  CHECK(scene.world.certificates.size() == 1);
  scene.core->broker_changed(std::make_shared<Somebody>(0));
  CHECK(scene.world.registration.certificate().until_unix_s() == 1'900'000'000);
  // What came while the broker had not accepted the node yet is repeated, and nothing else.
  message.mutable_certificate()->set_until_unix_s(2'000'000'000);
  scene.core->used(message);
  CHECK(scene.world.certificates.size() == 2);
  scene.world.answer(Result<void>{});
  REQUIRE(scene.world.certificates.size() == 3);
  CHECK(scene.world.certificates[2].certificate().until_unix_s() == 2'000'000'000);
  scene.core->broker_changed(nullptr);
  scene.core->broker_changed(std::make_shared<Somebody>(0));
  scene.world.answer(Result<void>{});
  CHECK(scene.world.certificates.size() == 3);
}

TEST_CASE("a refused agent asks again, and says so once") {
  Scene scene;
  scene.core->broker_changed(std::make_shared<Somebody>(0));
  const auto before = scene.world.notices.size();
  for (int times = 0; times < 3; ++times) {
    scene.world.answer(Result<void>{fail(Errc::already_exists, "node \"node\" is registered")});
    scene.pass(limits::redial_longest);
  }
  CHECK(scene.world.notices.substr(before)
        == "the broker does not take the node: node \"node\" is registered: this one needs another --name; it asks "
           "again every 1 s\n");
}

TEST_CASE("a node that leaves is empty when the broker knows and nothing runs any more") {
  Scene scene;
  scene.lease(1);
  scene.come_up(1);
  v1::DrainNode leave;
  leave.set_deadline_ms(1000);
  scene.core->leave(leave);
  REQUIRE(scene.world.drains.size() == 1);
  CHECK(scene.world.drains[0].deadline_ms() == 1000);
  scene.world.answer(Result<void>{});
  CHECK(scene.world.times_emptied == 0);
  scene.end(1);
  CHECK(scene.world.times_emptied == 1);
}

TEST_CASE("a device whose workers do not come up, one after the other, is out of use if they do on another one") {
  Scene scene;
  for (std::uint64_t id = 1; id <= limits::device_losses; ++id) {
    CHECK(scene.world.faults.empty());
    scene.lease(id);
    if (id % 2 == 0)
      scene.core->worker_exited(id, "could not load its plugin");
    else
      scene.pass(limits::worker_start);
    if (id % 2 != 0)
      scene.core->worker_exited(id, "was killed");
  }
  CHECK(scene.world.faults.empty());
  REQUIRE(scene.world.workers.size() == limits::device_losses + 1);
  scene.come_up(limits::device_losses + 1);
  REQUIRE(scene.world.faults.size() == 1);
  CHECK(scene.world.faults[0].devices(0) == 0);
  CHECK(scene.world.notices.find("3 workers for it in a row did not come up") != std::string::npos);
}

TEST_CASE("a worker that comes up ends the row of those that did not") {
  Scene scene;
  std::uint64_t id = 0;
  for (int times = 0; times < 3; ++times) {
    for (std::size_t failures = 1; failures < limits::device_losses; ++failures) {
      scene.lease(++id);
      scene.core->worker_exited(id, "could not load its plugin");
    }
    scene.lease(++id);
    scene.come_up(id);
    scene.core->worker_lost(id);
    scene.core->worker_exited(id, "was killed");
  }
  CHECK(scene.world.faults.empty());
}

TEST_CASE("a lease whose own process does not come up puts no device out of use: its request may be why") {
  Scene scene;
  for (std::uint64_t id = 1; id <= 2 * limits::device_losses; ++id) {
    scene.lease(id, {.isolated = true, .variable = "COLOUR"});
    scene.core->worker_exited(id, "did not like the colour");
  }
  CHECK(scene.world.faults.empty());
}

TEST_CASE("an agent whose name another node has taken ends what the broker has given up") {
  Scene scene;
  scene.lease(1);
  scene.come_up(1);
  scene.lease(2, {.device = 1});
  scene.core->broker_changed(std::make_shared<Somebody>(0));
  scene.world.answer(Result<void>{fail(Errc::already_exists, "node \"node\" is registered")});
  CHECK(scene.ordered("worker 1: end 1"));
  CHECK(scene.end_of(2) != nullptr); // it had not begun
  CHECK(scene.world.notices.find("the broker has given up 2 leases here") != std::string::npos);
}

TEST_CASE("an agent that meets a broker which does not serve looks for another one, and keeps what it holds") {
  Scene scene;
  scene.lease(1);
  scene.come_up(1);
  scene.core->broker_changed(nullptr);
  scene.core->broker_changed(std::make_shared<Somebody>(0));
  const auto notices = scene.world.notices;
  const auto reminders = scene.world.reminders.size();
  scene.world.answer(Result<void>{fail(Errc::stale_epoch, "it stands by")});
  CHECK(scene.world.times_sent_away == 1);
  // It does not ask here again, and tells the operator nothing that its connection does not.
  CHECK(scene.world.reminders.size() == reminders);
  scene.core->broker_changed(nullptr);
  CHECK(scene.world.notices == notices);
  CHECK_FALSE(scene.ordered("worker 1: end 1"));
}

TEST_CASE("what an actor has saved while there was no broker is not lost to one that only stands by") {
  Scene scene;
  v1::StartActor order;
  order.mutable_lease()->set_id(1);
  order.mutable_lease()->set_epoch(1);
  order.mutable_lease()->add_devices()->set_share_units(1000);
  order.set_actor(7);
  scene.core->start(order, Payload{});
  scene.come_up(1);
  scene.begin(1);
  scene.core->broker_changed(nullptr);
  v1::ActorSaved save;
  save.set_lease(1);
  save.set_epoch(1);
  save.set_actor(7);
  save.set_type("Number");
  save.set_data("41");
  scene.core->saved(save);
  scene.end(1);
  // What each broker that it meets is sent, and whether that takes the node in.
  const auto sent_to_one = [&](const Result<void>& answer) {
    scene.world.saved.clear();
    scene.core->broker_changed(std::make_shared<Somebody>(0));
    const auto sent = scene.world.saved.size();
    scene.world.answer(answer);
    scene.core->broker_changed(nullptr);
    return sent;
  };
  CHECK(sent_to_one(fail(Errc::stale_epoch, "it stands by")) == 1);
  CHECK(sent_to_one({}) == 1);
  CHECK(sent_to_one({}) == 0);
}

TEST_CASE(
    "what has failed while there was no broker is told as held, and as ended behind that, until one takes the node") {
  Scene scene;
  for (const std::uint64_t id : {1, 2, 3, 4})
    scene.lease(id);
  scene.come_up(1);
  scene.order_end(2, std::chrono::seconds{5});
  scene.core->broker_changed(nullptr);
  scene.core->ended(lease_end(1, 1, Error{Errc::invalid_argument, "no such file"}));
  scene.core->ended(lease_end(2, 1, Error{Errc::worker_died, "it did not stop"}));
  scene.end(4); // it has quit
  const auto told_one = [&](const Result<void>& answer) {
    scene.world.told_held.clear();
    scene.world.ended.clear();
    scene.core->broker_changed(std::make_shared<Somebody>(0));
    CHECK(scene.world.registration.held_ahead() == scene.world.told_held.size());
    scene.world.answer(answer);
    scene.core->broker_changed(nullptr);
    return scene.world.told_held;
  };
  CHECK(told_one(fail(Errc::stale_epoch, "it stands by")) == std::set<std::uint64_t>{1, 3, 4});
  CHECK(told_one({}) == std::set<std::uint64_t>{1, 3, 4});
  REQUIRE(scene.end_of(1) != nullptr);
  CHECK(scene.end_of(1)->text() == "no such file");
  CHECK(scene.end_of(4) != nullptr);
  CHECK(scene.world.ended.size() == 2);
  CHECK(told_one({}) == std::set<std::uint64_t>{3});
  CHECK(scene.world.ended.empty());
}

TEST_CASE("an agent that is refused for another reason keeps what it holds") {
  Scene scene;
  scene.lease(1);
  scene.come_up(1);
  scene.core->broker_changed(std::make_shared<Somebody>(0));
  scene.world.answer(Result<void>{fail(Errc::unavailable, "not all has arrived")});
  CHECK_FALSE(scene.ordered("worker 1: end 1"));
}

TEST_CASE("a worker that says nothing of the end of a lease is killed a while after its grace") {
  Scene scene;
  scene.lease(1);
  scene.lease(2);
  scene.come_up(1);
  scene.order_end(1, std::chrono::seconds{1});
  scene.pass(std::chrono::seconds{1} + Duration{limits::stop_grace});
  CHECK(scene.world.killed.empty());
  scene.pass(limits::stop_grace);
  CHECK(scene.world.killed.count(1) == 1);
}

TEST_CASE("a lease that has ended in time costs its worker nothing") {
  Scene scene;
  scene.lease(1);
  scene.lease(2);
  scene.come_up(1);
  scene.order_end(1, std::chrono::seconds{1});
  scene.end(1);
  scene.pass(std::chrono::minutes{1});
  CHECK(scene.world.killed.empty());
}

TEST_CASE("what a worker said before it exited counts, though the news of its exit comes first") {
  Scene scene;
  scene.lease(1);
  scene.lease(2);
  scene.come_up(1);
  scene.core->worker_exited(1, "signal 11");
  CHECK(scene.world.ended.empty());
  auto own = lease_end(1, 1);
  own.set_by_itself(true);
  scene.core->ended(own);
  scene.core->worker_lost(1);
  REQUIRE(scene.end_of(1) != nullptr);
  CHECK(scene.end_of(1)->by_itself());
  REQUIRE(scene.end_of(2) != nullptr);
  CHECK(scene.end_of(2)->error() == static_cast<std::uint32_t>(Errc::worker_died));
  // Meanwhile, the next lease on the device gets a worker that lives.
  scene.lease(3);
  CHECK(scene.world.workers.size() == 2);
}

TEST_CASE("an exited worker whose connection does not end is buried all the same") {
  Scene scene;
  scene.lease(1);
  scene.come_up(1);
  scene.core->worker_exited(1, "signal 9");
  scene.pass(limits::exit_patience);
  REQUIRE(scene.end_of(1) != nullptr);
  CHECK(scene.end_of(1)->text().find("signal 9") != std::string::npos);
}

TEST_CASE("a lease that borrows from one whose process is being killed does not start in another process") {
  Scene scene;
  scene.lease(1, {.isolated = true});
  scene.come_up(1);
  scene.begin(1);
  scene.core->worker_lost(1);
  scene.lease(2, {.parent = 1});
  REQUIRE(scene.end_of(2) != nullptr);
  CHECK(scene.end_of(2)->error() == static_cast<std::uint32_t>(Errc::lease_revoked));
  CHECK(scene.world.workers.size() == 1);
}

TEST_CASE("what borrows from a borrower does not start in a process whose own lease has ended") {
  Scene scene;
  scene.lease(1, {.isolated = true});
  scene.come_up(1);
  scene.begin(1);
  scene.lease(2, {.parent = 1});
  scene.end(1);
  scene.lease(3, {.parent = 2});
  REQUIRE(scene.end_of(3) != nullptr);
  CHECK(scene.end_of(3)->error() == static_cast<std::uint32_t>(Errc::lease_revoked));
  scene.end(2);
  CHECK(scene.ordered("worker 1: die 0"));
}

TEST_CASE("an end without a limit for its grace kills nobody") {
  Scene scene;
  scene.lease(1);
  scene.come_up(1);
  scene.order_end(1, std::chrono::ceil<std::chrono::milliseconds>(Duration::max()));
  scene.pass(std::chrono::hours{1});
  CHECK(scene.world.killed.empty());
}

TEST_CASE("what borrows from a lease that has ended by itself has its time, too") {
  Scene scene;
  scene.lease(1, {.isolated = true});
  scene.come_up(1);
  scene.begin(1);
  scene.lease(2, {.parent = 1});
  scene.end(1);
  CHECK(scene.ordered("worker 1: end 2"));
  CHECK(scene.world.killed.empty());
  scene.pass(2 * Duration{limits::stop_grace});
  CHECK(scene.world.killed.count(1) == 1);
}

TEST_CASE("losses that workers tell of count, although the news of their exits came first") {
  Scene scene;
  for (std::uint64_t id = 1; id <= limits::device_losses; ++id) {
    CHECK(scene.world.faults.empty());
    scene.lease(id);
    scene.come_up(id);
    scene.core->worker_exited(id, "signal 6");
    scene.lose(id);
    scene.core->worker_lost(id);
  }
  REQUIRE(scene.world.faults.size() == 1);
  CHECK(scene.world.faults[0].agent() == 1);
}
