// Replicas of a generative model that a test plays itself, and clients of their dispatcher.
#pragma once

#include "models_chat.hpp"

#include <apps/serve/models/dispatcher.hpp>
#include <apps/serve/models/generation.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace serve::test {

inline wire::GenerateReply item_of(const std::string& text) {
  wire::GenerateReply item;
  auto& output = *item.add_outputs();
  output.set_name("text");
  output.add_shape(1);
  append_bytes_element(*output.mutable_data(), text);
  return item;
}

inline std::string text_of(const InferReply& reply) {
  auto data = reply.outputs.at(0).data.view();
  const auto element = take_bytes_element(data);
  REQUIRE(element);
  return {reinterpret_cast<const char*>(element->data()), element->size()};
}

/// One request at a replica.
struct Play {
  wire::GenerateRequest request;
  gpuactors::Duration time;
  std::mutex mutex;
  std::deque<gpuactors::Result<std::optional<wire::GenerateReply>>> coming;
  std::function<void()> ready;
  std::atomic<bool> withdrawn{false};

  void say(gpuactors::Result<std::optional<wire::GenerateReply>> what) {
    std::function<void()> call;
    {
      const std::lock_guard lock{mutex};
      coming.push_back(std::move(what));
      call = std::exchange(ready, nullptr);
    }
    if (call)
      call();
  }

  void item(const std::string& text) {
    say(std::optional{item_of(text)});
  }

  void finish() {
    say(std::optional<wire::GenerateReply>{});
  }

  void fail(gpuactors::Errc code) {
    say(gpuactors::fail(code, "as the test says"));
  }
};

class PlayedStream final : public ReplicaStream {
public:
  explicit PlayedStream(std::shared_ptr<Play> play) : play_(std::move(play)) {
    // nop
  }

  ~PlayedStream() override {
    play_->withdrawn = true;
  }

  void when_ready(std::function<void()> ready) override {
    {
      const std::lock_guard lock{play_->mutex};
      if (play_->coming.empty()) {
        play_->ready = std::move(ready);
        return;
      }
    }
    ready();
  }

  gpuactors::Result<std::optional<wire::GenerateReply>> take() override {
    const std::lock_guard lock{play_->mutex};
    auto result = std::move(play_->coming.front());
    play_->coming.pop_front();
    return result;
  }

private:
  std::shared_ptr<Play> play_;
};

/// A replica whose streams the test plays.
struct PlayedGenerator {
  std::mutex mutex;
  std::vector<std::shared_ptr<Play>> plays;

  RunStream run() {
    return [this](wire::GenerateRequest request, gpuactors::Duration time) {
      auto play = std::make_shared<Play>();
      play->request = std::move(request);
      play->time = time;
      const std::lock_guard lock{mutex};
      plays.push_back(play);
      return std::make_shared<PlayedStream>(play);
    };
  }

  [[nodiscard]] std::size_t count() {
    const std::lock_guard lock{mutex};
    return plays.size();
  }

  Play& play(std::size_t index) {
    const std::lock_guard lock{mutex};
    return *plays.at(index);
  }
};

using Reply = gpuactors::Result<std::optional<InferReply>>;

struct ChatClient {
  std::shared_ptr<Generation> generation;

  std::future<Reply> next() const {
    const auto promise = std::make_shared<std::promise<Reply>>();
    auto future = promise->get_future();
    generation->next([promise](Reply reply) { promise->set_value(std::move(reply)); });
    return future;
  }
};

/// The text of a reply, "END", or the error.
inline std::string read(std::future<Reply> coming) {
  auto reply = coming.get();
  if (!reply)
    return to_string(reply.error());
  return *reply ? text_of(**reply) : "END";
}

inline bool has_come(const std::future<Reply>& coming) {
  return coming.wait_for(std::chrono::seconds{0}) == std::future_status::ready;
}

/// A dispatcher with clients.
class ChatDesk {
public:
  explicit ChatDesk(std::size_t max_running = 2, std::size_t max_requests = 100, bool fills = false,
                    wire::SequenceMemory memory = wire::SEQUENCE_MEMORY_NONE,
                    gpuactors::Duration replica_wait = std::chrono::seconds{30}) {
    DispatcherOptions options;
    options.facts = chat_facts();
    options.facts.sequences = memory;
    if (memory == wire::SEQUENCE_MEMORY_CACHE)
      options.sequences.memory = batching::Memory::cache;
    options.limits.max_batch = 1;
    options.limits.max_requests = max_requests;
    options.limits.max_bytes = 1'000;
    options.max_running = max_running;
    options.fills = fills;
    options.replica_wait = replica_wait;
    dispatcher = must(Dispatcher::start(std::move(options), [this] { ++changes; }));
  }

  ChatDesk(const ChatDesk&) = delete;
  ChatDesk& operator=(const ChatDesk&) = delete;

  /// Its timer's thread must not be the last one that holds it.
  ~ChatDesk() {
    dispatcher->close({});
  }

  void add(std::uint64_t id, PlayedGenerator& replica) {
    dispatcher->add_generative({id, gpuactors::Share{2'500}, 0}, replica.run());
  }

  ChatClient ask(const std::string& text, gpuactors::Duration timeout = {}, std::uint64_t priority = 1,
                 const SequenceStep& step = {}, const gpuactors::TraceContext& trace = {},
                 gpuactors::Duration queue_timeout = {}) {
    auto request = prompt(text);
    request.sequence = step;
    request.trace = trace;
    auto generation = Generation::of(std::move(request));
    const auto& pending = generation->pending();
    pending->priority = priority;
    pending->bytes = text.size();
    pending->starts = step.start;
    pending->ends = step.end;
    pending->arrived = gpuactors::Clock::now();
    if (timeout > gpuactors::Duration::zero())
      pending->deadline = pending->arrived + timeout;
    if (queue_timeout > gpuactors::Duration::zero())
      pending->begin_by = pending->arrived + queue_timeout;
    generation->belongs_to(dispatcher);
    accepted = dispatcher->submit(pending);
    return {std::move(generation)};
  }

  std::atomic<int> changes{0};
  std::atomic<bool> accepted{false};
  std::shared_ptr<Dispatcher> dispatcher;
};

} // namespace serve::test
