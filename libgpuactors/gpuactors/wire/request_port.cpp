#include <gpuactors/base/limits.hpp>
#include <gpuactors/wire/closed.hpp>
#include <gpuactors/wire/errors.hpp>
#include <gpuactors/wire/request_port.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace gpuactors {

// Overriders move from their argument.
void PendingReply::on_item(Payload) { // NOLINT(performance-unnecessary-value-param)
  // nop
}

namespace {

/// Returns what a reply may get of an error.
Error as_known(const PendingReply& reply, Error error) {
  if (error.code() != Errc::not_begun || reply.knows_not_begun())
    return error;
  return Error{Errc::actor_died, "the actor ended before it answered"};
}

/// A timer made of a request that nobody answers: its deadline is the alarm.
class Timer : public OwnReply {
public:
  Timer(std::function<void()> due, std::function<void(Error)> otherwise)
    : due_(std::move(due)), otherwise_(std::move(otherwise)) {
    // nop
  }

  void on_reply(MessageContent&) override {
    // nop
  }

  void on_error(Error error) override {
    if (error.code() == Errc::deadline_exceeded)
      due_();
    else if (otherwise_)
      otherwise_(std::move(error));
  }

private:
  std::function<void()> due_;
  std::function<void(Error)> otherwise_;
};

} // namespace

RequestPort::RequestPort(caf::actor_system& system, MessageHandler on_message) : table_(std::make_shared<Table>()) {
  table_->on_message = std::move(on_message);
  std::random_device random;
  table_->nonce = random() & 0xF'FFFF;
  next_ticket_ = Ticket{random()} + 1;
  companion_ = system.spawn<caf::actor_companion, caf::hidden>();
  self_ = caf::actor_cast<caf::strong_actor_ptr>(companion_);
  auto* companion = caf::actor_cast<caf::actor_companion*>(companion_);
  companion->on_enqueue([table = table_](caf::mailbox_element_ptr element) { table->receive(*element); });
  timer_ = std::thread{[this] { run_timer(); }};
}

RequestPort::~RequestPort() {
  close();
}

Result<RequestPort::Ticket> RequestPort::add(std::shared_ptr<PendingReply> pending, const caf::strong_actor_ptr& to,
                                             TimePoint deadline) {
  if (pending->counts() && table_->count.fetch_add(1) >= limits::calls_in_flight) {
    --table_->count;
    return fail(Errc::queue_full, fmt::format("{} calls are in flight, the most that one client may have: wait for "
                                              "some of them first",
                                              limits::calls_in_flight));
  }
  Ticket ticket = 0;
  for (bool entered = false; !entered;) {
    // They begin anew before they reach the bits of a call's id that tell clients apart: after weeks under load. What
    // is pending for so long keeps its own.
    ticket = next_ticket_.fetch_add(1, std::memory_order_relaxed) & ((Ticket{1} << nonce_shift) - 1);
    auto& shard = table_->shard(ticket);
    const std::lock_guard lock{shard.mutex};
    // Checked under the lock: `close` sets `closed` before it empties the shards, so no request can be entered after
    // that.
    if (table_->closed) {
      if (pending->counts())
        --table_->count;
      return fail(cluster_closed());
    }
    if (ticket == 0)
      continue;
    const auto [entry, is_new] =
        shard.entries.try_emplace(ticket, std::move(pending), caf::actor_cast<caf::actor_addr>(to), deadline, ticket);
    if (!is_new)
      continue; // and `pending` is still here
    if (to != nullptr)
      shard.by_receiver.add(to.get(), entry->second);
    if (deadline != never)
      shard.deadlines.emplace(deadline, ticket);
    entered = true;
  }
  // The timer is only woken for a deadline earlier than the one it sleeps for; answered calls do not disturb it. A
  // timer that looks for what is due has said so before, and does not miss the request, which is in the table by now.
  if (deadline < timer_due_.load()) {
    const std::lock_guard lock{timer_mutex_};
    if (deadline < timer_due_.load()) {
      timer_due_ = deadline;
      timer_wake_.notify_one();
    }
  }
  return ticket;
}

void RequestPort::abandon(Ticket ticket, Error error) {
  if (auto pending = table_->take(ticket))
    pending->on_error(std::move(error));
}

bool RequestPort::forget(Ticket ticket) {
  return table_->take(ticket) != nullptr;
}

Result<RequestPort::Ticket> RequestPort::after(Duration wait, std::function<void()> due,
                                               std::function<void(Error)> otherwise) {
  return add(std::make_shared<Timer>(std::move(due), std::move(otherwise)), nullptr,
             deadline_after(Clock::now(), wait));
}

void RequestPort::fail_receiver(const caf::actor_addr& receiver, const Error& error) {
  table_->fail_receiver(receiver, error);
}

void RequestPort::watch(const caf::strong_actor_ptr& receiver, Error error, std::function<void()> first) {
  on_end(receiver, [this, address = caf::actor_cast<caf::actor_addr>(receiver), error = std::move(error),
                    first = std::move(first)](const caf::error& reason) {
    if (first)
      first();
    if (reason == caf::exit_reason::remote_link_unreachable)
      fail_receiver(address, Error{Errc::worker_died, "the process that it ran in has ended, or the connection to it "
                                                      "is lost"});
    else
      fail_receiver(address, error);
  });
}

void RequestPort::on_end(const caf::strong_actor_ptr& actor, std::function<void(const caf::error&)> function) {
  actor->get()->attach_functor(
      [weak = std::weak_ptr{table_}, function = std::move(function)](const caf::error& reason) {
        if (const auto table = weak.lock())
          table->visit([&] { function(reason); });
      });
}

std::size_t RequestPort::pending() const {
  return table_->count;
}

void RequestPort::close() {
  if (table_->closed.exchange(true))
    return;
  {
    const std::lock_guard lock{timer_mutex_};
    stopping_ = true;
    timer_wake_.notify_one();
  }
  timer_.join();
  {
    // Waits for a running message handler; no other one starts afterwards.
    const std::lock_guard lock{table_->message_mutex};
    table_->on_message = nullptr;
  }
  for (auto& shard : table_->shards) {
    std::unordered_map<Ticket, Entry> entries;
    {
      const std::lock_guard lock{shard.mutex};
      entries.swap(shard.entries);
      shard.by_receiver.clear();
      shard.deadlines.clear();
    }
    for (auto& [ticket, entry] : entries) {
      if (entry.reply->counts())
        --table_->count;
      entry.reply->on_error(Error{Errc::unavailable, "the cluster was closed before the answer came"});
    }
  }
  // Does the work of actor_companion::disconnect, which CAF 0.17.6 declares but the packaged library lacks.
  auto* companion = caf::actor_cast<caf::actor_companion*>(companion_);
  companion->on_enqueue({}); // waits for a reply that is being taken
  table_->await_visitors();
  companion->cleanup(caf::make_error(caf::exit_reason::user_shutdown), nullptr);
}

// -- table ----------------------------------------------------------------------------------------

std::shared_ptr<PendingReply> RequestPort::Table::take(Ticket ticket) {
  auto& from = shard(ticket);
  const std::lock_guard lock{from.mutex};
  const auto found = from.entries.find(ticket);
  if (found == from.entries.end())
    return nullptr;
  auto reply = std::move(found->second.reply);
  if (found->second.deadline != never) {
    const auto [first, last] = from.deadlines.equal_range(found->second.deadline);
    for (auto due = first; due != last; ++due)
      if (due->second == ticket) {
        from.deadlines.erase(due);
        break;
      }
  }
  detail::ReceiverLists::remove(found->second);
  from.entries.erase(found);
  if (reply->counts())
    --count;
  return reply;
}

bool RequestPort::Table::outlives_receivers(Ticket ticket) {
  auto& in = shard(ticket);
  const std::lock_guard lock{in.mutex};
  const auto found = in.entries.find(ticket);
  return found != in.entries.end() && found->second.receiver == nullptr;
}

void RequestPort::Table::receive(caf::mailbox_element& element) {
  MessageContent content{element.content()};
  if (element.mid.is_response()) {
    const auto ticket = element.mid.request_id().integer_value();
    const auto* error = content.match_elements<caf::error>() ? &content.get_as<caf::error>(0) : nullptr;
    if (error != nullptr && *error == caf::sec::request_receiver_down && outlives_receivers(ticket))
      return;
    const auto reply = take(ticket);
    if (reply == nullptr)
      return;
    if (error == nullptr)
      return reply->on_reply(content);
    return reply->on_error(as_known(*reply, from_caf(*error)));
  }
  if (content.match_elements<StreamItem>()) {
    auto& item = content.get_mutable_as<StreamItem>(0);
    if (item.call.value() >> nonce_shift != nonce)
      return;
    const auto ticket = item.call.value() & ((Ticket{1} << nonce_shift) - 1);
    std::shared_ptr<PendingReply> reply;
    {
      auto& from = shard(ticket);
      const std::lock_guard lock{from.mutex};
      if (const auto found = from.entries.find(ticket); found != from.entries.end())
        reply = found->second.reply;
    }
    if (reply != nullptr)
      reply->on_item(std::move(item.payload));
    return;
  }
  const std::lock_guard lock{message_mutex};
  if (on_message)
    on_message(content);
}

void RequestPort::Table::fail_receiver(const caf::actor_addr& receiver, const Error& error) {
  std::vector<Ticket> tickets;
  for (auto& shard : shards) {
    const std::lock_guard lock{shard.mutex};
    shard.by_receiver.each(receiver.get(), [&](const detail::ReceiverLink& link) {
      if (const auto& entry = static_cast<const Entry&>(link); entry.receiver == receiver)
        tickets.push_back(entry.ticket);
    });
  }
  // What is made again for this error comes in the order in which it was made.
  std::sort(tickets.begin(), tickets.end());
  for (const auto ticket : tickets)
    if (auto reply = take(ticket))
      reply->on_error(as_known(*reply, error));
}

void RequestPort::Table::visit(const std::function<void()>& function) {
  // Entered before `closed` is read, and `close` sets it before it looks for visitors: it misses none that goes on.
  visitors.fetch_add(1);
  if (!closed)
    function();
  if (visitors.fetch_sub(1) == 1)
    visitors.notify_all();
}

void RequestPort::Table::await_visitors() {
  for (int now = visitors; now != 0; now = visitors)
    visitors.wait(now);
}

TimePoint RequestPort::Table::expire(TimePoint now) {
  auto next = never;
  for (auto& shard : shards) {
    std::vector<Ticket> tickets;
    {
      const std::lock_guard lock{shard.mutex};
      for (const auto& [deadline, ticket] : shard.deadlines) {
        if (deadline > now) {
          next = std::min(next, deadline);
          break;
        }
        tickets.push_back(ticket);
      }
    }
    for (const auto ticket : tickets)
      if (auto reply = take(ticket))
        reply->on_error(reply->overdue());
  }
  return next;
}

// -- timer ----------------------------------------------------------------------------------------

void RequestPort::run_timer() {
  std::unique_lock lock{timer_mutex_};
  while (!stopping_) {
    const TimePoint due = timer_due_;
    if (due == never)
      timer_wake_.wait(lock);
    else
      timer_wake_.wait_until(lock, due);
    if (stopping_ || Clock::now() < timer_due_.load())
      continue;
    timer_due_ = never;
    lock.unlock();
    const auto next = table_->expire(Clock::now());
    lock.lock();
    timer_due_ = std::min(timer_due_.load(), next);
  }
}

} // namespace gpuactors
