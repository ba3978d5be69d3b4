#include "test_talk.hpp"

#include <apps/serve/protocol/tensor_rules.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace serve::test {

using gpuactors::Errc;
using gpuactors::fail;

namespace {

class Talk final : public Service::Replies {
public:
  Talk(InferRequest request, std::shared_ptr<TalkCounts> counts)
    : request_(std::move(request)), counts_(std::move(counts)) {
    if (request_.inputs.size() == 1) {
      auto data = request_.inputs[0].data.view();
      if (const auto element = take_bytes_element(data))
        text_.assign(reinterpret_cast<const char*>(element->data()), element->size());
    }
  }

  void next(Next done) override {
    std::unique_lock lock{counts_->mutex};
    const auto at = at_++;
    ++counts_->replies;
    if (request_.inputs.size() != 1 || request_.inputs[0].name != "text")
      return answer(lock, done, fail(Errc::invalid_argument, "model \"talk\" has one input, \"text\""));
    if (cancelled_)
      return answer(lock, done, fail(Errc::cancelled, "the client has gone"));
    if (at == count("fail_after"))
      return answer(lock, done, fail(Errc::task_failed, "the talk broke off"));
    if (at == count("hold_after")) {
      ++counts_->held;
      held_ = std::move(done);
      return;
    }
    if (at == count("times").value_or(text_.size()))
      return answer(lock, done, std::optional<InferReply>{});
    answer(lock, done, std::optional{reply(at)});
  }

  void cancel() noexcept override {
    Next held;
    {
      const std::lock_guard lock{counts_->mutex};
      if (!std::exchange(cancelled_, true))
        ++counts_->cancelled;
      if (held_)
        --counts_->held;
      held = std::exchange(held_, nullptr);
    }
    if (held)
      held(fail(Errc::cancelled, "the client has gone"));
  }

private:
  using Reply = gpuactors::Result<std::optional<InferReply>>;

  static void answer(std::unique_lock<std::mutex>& lock, const Next& done, Reply reply) {
    lock.unlock();
    done(std::move(reply));
  }

  [[nodiscard]] std::optional<std::size_t> count(const std::string& name) const {
    const auto found = request_.parameters.find(name);
    const auto* value = found == request_.parameters.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
    return value == nullptr ? std::nullopt : std::optional{static_cast<std::size_t>(*value)};
  }

  [[nodiscard]] InferReply reply(std::size_t at) const {
    const auto bytes = count("bytes");
    std::string element;
    append_bytes_element(element, bytes ? std::string(*bytes, 'x') : text_.substr(at % text_.size(), 1));
    InferReply result{"talk", "1", request_.id, {}};
    result.outputs.push_back({"text", DataType::bytes, {1}, Bytes::of(std::move(element))});
    result.outputs.push_back(
        {"numbers", DataType::int32, {1}, Bytes::of(std::vector<std::int32_t>{static_cast<std::int32_t>(at)})});
    if (request_.parameters.contains("score"))
      result.outputs.push_back({"score", DataType::fp32, {1}, Bytes::of(std::vector<float>{0.5F})});
    return result;
  }

  const InferRequest request_;
  const std::shared_ptr<TalkCounts> counts_;
  std::string text_;
  // Guarded by the mutex of the counts.
  std::size_t at_ = 0;
  bool cancelled_ = false;
  Next held_;
};

} // namespace

ModelDescription describe_talk() {
  ModelDescription model;
  model.name = "talk";
  model.versions = {"1"};
  model.platform = "gpuactors";
  model.inputs = {{"text", DataType::bytes, {1}}};
  model.outputs = {{"text", DataType::bytes, {1}}, {"numbers", DataType::int32, {-1}}, {"score", DataType::fp32, {1}}};
  model.generative = true;
  model.max_running = 16;
  model.replicas = 1;
  return model;
}

std::shared_ptr<Service::Replies> begin_talk(InferRequest request, std::shared_ptr<TalkCounts> counts) {
  return std::make_shared<Talk>(std::move(request), std::move(counts));
}

} // namespace serve::test
