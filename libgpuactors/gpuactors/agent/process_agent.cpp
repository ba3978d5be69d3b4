// The agent's messages, between CAF and the core; and the node's log.
#include <gpuactors/agent/process_agent.hpp>
#include <gpuactors/wire/actor_contact.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors {

namespace {

using Handle = caf::strong_actor_ptr;

// What a `Tick` is about: a wake of the core, by its number, or one of these.
constexpr std::uint32_t tick_log = 1000;
constexpr std::uint32_t tick_memory = 1001;

/// The log source of a lease's holder.
LogSource source_of(const v1::HeldLease& held) {
  if (!held.has_actor())
    return {LogSource::Kind::task, 0, held.lease().name()};
  const auto& spec = held.actor().spec();
  auto name = spec.name().empty() ? spec.type() : spec.name();
  if (!spec.name_space().empty())
    name = spec.name_space() + "/" + name;
  return {LogSource::Kind::actor, held.actor().actor(), std::move(name)};
}

v1::LogLines to_wire(LogAnswer answer) {
  v1::LogLines message;
  message.set_dropped(answer.dropped);
  for (auto& line : answer.lines) {
    auto* entry = message.add_lines();
    entry->set_time_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(line.time.time_since_epoch()).count());
    entry->set_node(std::move(line.node));
    entry->set_source(std::move(line.source));
    entry->set_stream(std::string{to_string(line.stream)});
    entry->set_text(std::move(line.text));
  }
  return message;
}

} // namespace

// -- the core's world -----------------------------------------------------------------------------

class ProcessAgent::World : public AgentWorld {
public:
  explicit World(ProcessAgent& self) : self_(self) {
    // nop
  }

  TimePoint now() const override {
    return Clock::now();
  }

  std::int64_t unix_ns() const override {
    using namespace std::chrono;
    return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
  }

  void wake(Duration after, AgentWake what, std::uint64_t about) override {
    v1::Tick tick;
    tick.set_what(static_cast<std::uint32_t>(what));
    tick.set_id(about);
    if (after <= Duration::zero())
      caf_version::post(caf::actor_cast<Handle>(&self_), std::move(tick));
    else
      caf_version::post_later(&self_, after, std::move(tick));
  }

  void post(const ContactPtr& broker, v1::HeldAhead message) override {
    caf_version::post(handle_of(broker), std::move(message));
  }

  void post(const ContactPtr& broker, v1::LeaseStarted message) override {
    // Clients look holders up at the worker.
    caf_version::post(handle_of(broker), std::move(message), Handle{}, Handle{});
  }

  void post(const ContactPtr& broker, v1::LeaseEnded message) override {
    caf_version::post(handle_of(broker), std::move(message));
  }

  void post(const ContactPtr& broker, v1::ActorSaved message) override {
    caf_version::post(handle_of(broker), std::move(message));
  }

  void post(const ContactPtr& broker, v1::HolderUsage message) override {
    caf_version::post(handle_of(broker), std::move(message));
  }

  void post(const ContactPtr& broker, v1::DeviceFault message) override {
    caf_version::post(handle_of(broker), std::move(message));
  }

  void post(const ContactPtr& broker, v1::DeviceUse message) override {
    caf_version::post(handle_of(broker), std::move(message));
  }

  void post(const ContactPtr& broker, v1::NodePrograms message) override {
    caf_version::post(handle_of(broker), std::move(message));
  }

  void ask(const ContactPtr& broker, v1::RegisterNode message, BrokerReply reply) override {
    ask_for(std::move(reply), broker, std::move(message), caf::actor_cast<Handle>(&self_));
  }

  void ask(const ContactPtr& broker, v1::DrainNode message, BrokerReply reply) override {
    ask_for(std::move(reply), broker, std::move(message));
  }

  void ask(const ContactPtr& broker, v1::Goodbye message, BrokerReply reply) override {
    ask_for(std::move(reply), broker, std::move(message));
  }

  Result<void> start(const WorkerCommand& command, const v1::HeldLease* owner) override {
    self_.options_.sources->add_worker(
        command.number,
        owner != nullptr ? source_of(*owner) : LogSource{LogSource::Kind::worker, command.number, command.purpose});
    return self_.options_.launcher->start(command);
  }

  void kill(std::uint64_t worker) override {
    self_.options_.launcher->kill(worker);
  }

  void watch(const ContactPtr& contact, std::uint64_t worker) override {
    handle_of(contact)->get()->attach_functor([self = caf::actor_cast<caf::actor_addr>(&self_), worker] {
      v1::PeerDown down;
      down.set_peer(worker);
      caf_version::post(caf::actor_cast<Handle>(self), std::move(down));
    });
  }

  void order(const ContactPtr& worker, const v1::StartRunner& order) override {
    caf_version::post(handle_of(worker), order);
  }

  void order(const ContactPtr& worker, const v1::StartActor& order, const Payload& config) override {
    caf_version::post(handle_of(worker), order, config);
  }

  void order(const ContactPtr& worker, const v1::EndLease& order) override {
    caf_version::post(handle_of(worker), order);
  }

  void order(const ContactPtr& worker, const v1::DeviceFault& order) override {
    caf_version::post(handle_of(worker), order);
  }

  void order(const ContactPtr& worker, const v1::EndProcess& order) override {
    caf_version::post(handle_of(worker), order);
  }

  void look_at_memory(MemoryQuery query) override {
    if (!self_.options_.look_at_memory)
      return;
    self_.options_.look_at_memory(std::move(query),
                                  [looks = self_.looks_, agent = caf::actor_cast<Handle>(&self_)](MemoryLook look) {
                                    {
                                      const std::lock_guard lock{looks->mutex};
                                      looks->latest = std::move(look);
                                    }
                                    v1::Tick tick;
                                    tick.set_what(tick_memory);
                                    caf_version::post(agent, std::move(tick));
                                  });
  }

  bool mps_runs() const override {
    return self_.options_.mps_runs();
  }

  void holder_begins(std::uint64_t worker, const v1::HeldLease& held, std::int64_t since_ns) override {
    const auto since = std::chrono::duration_cast<LogTime::duration>(std::chrono::nanoseconds{since_ns});
    self_.options_.sources->add_holder(worker, LeaseId{held.lease().id()}, source_of(held), LogTime{since});
  }

  void holder_ended(std::uint64_t worker, std::uint64_t lease) override {
    self_.options_.sources->remove_holder(worker, LeaseId{lease});
  }

  void worker_ended(std::uint64_t worker) override {
    self_.options_.sources->remove_worker(worker);
  }

  std::string address() const override {
    return self_.options_.address();
  }

  void notice(std::string text) override {
    self_.options_.notice(std::move(text));
  }

  void registered() override {
    self_.options_.registered();
  }

  void unregistered() override {
    self_.options_.unregistered();
  }

  void emptied() override {
    self_.options_.emptied();
  }

  void look_elsewhere(const Error& why) override {
    self_.options_.look_elsewhere(why);
  }

  void parted() override {
    self_.options_.parted();
  }

private:
  template <class... Ts>
  void ask_for(BrokerReply reply, const ContactPtr& broker, Ts&&... message) {
    caf_version::ask(&self_, caf::actor_cast<BrokerHandle>(handle_of(broker)), std::forward<Ts>(message)...)
        .then([reply](v1::Done&) { reply(Result<void>{}); },
              [reply](caf::error& error) {
                if (error == caf::sec::request_receiver_down)
                  reply(std::nullopt);
                else
                  reply(Result<void>{fail(from_caf(error))});
              });
  }

  ProcessAgent& self_;
};

// -- the actor ------------------------------------------------------------------------------------

ProcessAgent::ProcessAgent(caf::actor_config& config, ProcessAgentOptions options)
  : Guarded(config, options.lanes), options_(std::move(options)), world_(std::make_unique<World>(*this)),
    core_(std::make_unique<AgentCore>(*world_, std::exchange(options_.agent, {}))) {
  // nop
}

ProcessAgent::~ProcessAgent() = default;

AgentHandle::behavior_type ProcessAgent::make_behavior() {
  auto& core = *core_;
  return {
      [&core](const v1::StartRunner& order) { core.start(order); },
      [&core](const v1::StartActor& order, const Payload& config) { core.start(order, config); },
      [&core](const v1::EndLease& order) { core.end(order); },
      [&core](const v1::LeaseStarted& message, const Handle&, const Handle&) { core.started(message); },
      [&core](const v1::LeaseEnded& message) { core.ended(message); },
      [&core](const v1::LeaseStuck& message) { core.stuck(message); },
      [&core](const v1::WorkerHello& message, const Handle& control) -> caf::result<v1::Done> {
        if (const auto expected = core.worker_up(message, contact_of(control)); !expected)
          return to_caf(expected.error());
        return v1::Done{};
      },
      [&core](const v1::WorkerExited& message) {
        core.worker_exited(message.worker(), message.text(), LastLines::from(message));
      },
      [&core](const v1::PeerDown& message) { core.worker_lost(message.peer()); },
      [&core](const v1::LinkChanged&, const Handle& broker) { core.broker_changed(contact_of(broker)); },
      [this, &core](const v1::Tick& message) {
        if (message.what() == tick_log)
          answer_readers();
        else if (message.what() == tick_memory)
          take_look();
        else
          core.wake(static_cast<AgentWake>(message.what()), message.id());
      },
      [this](const v1::ReadLog& message) { return read_log(message); },
      [&core](const v1::ActorSaved& message) { core.saved(message); },
      [&core](const v1::HolderUsage& message) { core.used(message); },
      [&core](const v1::DeviceFault& message) { core.device_failed(message); },
      [&core](const v1::DeviceUse& message) { core.device_used(message); },
      [&core](const v1::DrainNode& message) { core.leave(message); },
      [&core](const v1::Goodbye&) { core.say_goodbye(); },
      [this](const v1::NodePrograms& message) { change_programs(message); },
  };
}

void ProcessAgent::change_programs(const v1::NodePrograms& message) {
  // Whoever sends it has made a table of them before.
  if (auto programs = ProgramTable::from_wire(message))
    core_->programs_changed(std::move(*programs), {message.uuids().begin(), message.uuids().end()});
  else
    options_.notice(programs.error().message());
}

void ProcessAgent::take_look() {
  std::optional<MemoryLook> look;
  {
    const std::lock_guard lock{looks_->mutex};
    look.swap(looks_->latest);
  }
  if (look)
    core_->memory_seen(*look);
}

void ProcessAgent::on_exit() {
  core_.reset();
  options_.look_at_memory = nullptr;
  options_.launcher = nullptr;
  options_.read_log = nullptr;
  readers_.clear();
}

// -- the log --------------------------------------------------------------------------------------

caf::result<v1::LogLines> ProcessAgent::read_log(const v1::ReadLog& message) {
  if (!options_.read_log)
    return to_caf(Error{Errc::unsupported, "this node keeps no log"});
  LogQuery query;
  query.caller = caller();
  query.reader = message.reader();
  query.actor = ActorId{message.actor()};
  query.count = message.count();
  query.follow = message.follow();
  // Bounds the wait before the conversion; the readers wait for at most `limits::log_wait` anyway.
  const auto most = to_milliseconds(2 * limits::log_wait);
  query.wait = std::chrono::milliseconds{std::min(message.wait_ms(), most)};
  const auto ticket = ++last_reader_;
  auto promise = make_response_promise<v1::LogLines>();
  readers_.emplace(ticket, promise);
  options_.read_log(query,
                    [ticket, answers = answers_, self = caf::actor_cast<Handle>(this)](Result<LogAnswer> answer) {
                      {
                        const std::lock_guard lock{answers->mutex};
                        answers->ready.emplace_back(ticket, std::move(answer));
                      }
                      v1::Tick tick;
                      tick.set_what(tick_log);
                      caf_version::post(self, std::move(tick));
                    });
  return promise;
}

void ProcessAgent::answer_readers() {
  std::vector<std::pair<std::uint64_t, Result<LogAnswer>>> ready;
  {
    const std::lock_guard lock{answers_->mutex};
    ready.swap(answers_->ready);
  }
  for (auto& [ticket, answer] : ready) {
    auto reader = readers_.extract(ticket);
    if (reader.empty())
      continue;
    if (answer)
      reader.mapped().deliver(to_wire(std::move(*answer)));
    else
      reader.mapped().deliver(to_caf(answer.error()));
  }
}

} // namespace gpuactors
