#include "test_service.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace serve::test {

using gpuactors::Clock;
using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

std::vector<float> floats_of(const Bytes& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty())
    std::memcpy(values.data(), bytes.view().data(), values.size() * sizeof(float));
  return values;
}

ModelDescription described(std::string name, std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs,
                           std::uint64_t max_batch) {
  ModelDescription model;
  model.name = std::move(name);
  model.versions = {"1"};
  model.platform = "gpuactors";
  model.inputs = std::move(inputs);
  model.outputs = std::move(outputs);
  model.max_batch = max_batch;
  model.max_queue = 128;
  model.default_timeout = std::chrono::seconds{5};
  model.replicas = 2;
  return model;
}

Result<void> check_line(const InferRequest& request) {
  if (request.inputs.size() != 1 || request.inputs[0].name != "x")
    return fail(Errc::invalid_argument, "model \"line\" has one input, \"x\"");
  const auto& x = request.inputs[0];
  if (x.type != DataType::fp32)
    return fail(Errc::invalid_argument, "input \"x\" of model \"line\" is FP32");
  if (x.shape.size() != 2 || x.shape[1] != 4)
    return fail(Errc::invalid_argument, "input \"x\" of model \"line\" has the shape [-1,4]");
  if (x.shape[0] < 1 || x.shape[0] > 64)
    return fail(Errc::invalid_argument, "model \"line\" takes batches of 1 to 64");
  for (const auto& output : request.outputs)
    if (output != "y")
      return fail(Errc::invalid_argument, "model \"line\" has one output, \"y\"");
  return {};
}

Result<std::vector<NamedTensor>> line(const InferRequest& request) {
  GPUACTORS_TRY(check_line(request));
  auto values = floats_of(request.inputs[0].data);
  for (auto& value : values)
    value = 2 * value + 1;
  return std::vector<NamedTensor>{{"y", DataType::fp32, request.inputs[0].shape, Bytes::of(std::move(values))}};
}

Result<std::vector<NamedTensor>> big(const InferRequest& request) {
  if (request.inputs.size() != 1 || request.inputs[0].type != DataType::int32 || request.inputs[0].data.size() != 4)
    return fail(Errc::invalid_argument, "model \"big\" has one input, a single INT32");
  std::int32_t count = 0;
  std::memcpy(&count, request.inputs[0].data.view().data(), sizeof count);
  if (count < 0)
    return fail(Errc::invalid_argument, "n is negative");
  return std::vector<NamedTensor>{
      {"y", DataType::fp32, {count}, Bytes::of(std::vector<float>(static_cast<std::size_t>(count), 0.5F))}};
}

} // namespace

/// Withdraws one request that waits.
class TestService::WaitingTicket final : public Ticket {
public:
  WaitingTicket(TestService& service, std::uint64_t number) : service_(service), number_(number) {
    // nop
  }

  void cancel() noexcept override {
    service_.end_waiting(number_);
  }

private:
  TestService& service_;
  std::uint64_t number_;
};

TestService::TestService() {
  const TensorSpec x{"x", DataType::fp32, {-1, 4}};
  models_["line"] = described("line", {x}, {{"y", DataType::fp32, {-1, 4}}}, 64);
  models_["echo"] = described("echo", {{"text", DataType::bytes, {1}}}, {{"text", DataType::bytes, {1}}}, 0);
  models_["wait"] = described("wait", {x}, {}, 0);
  models_["big"] = described("big", {{"n", DataType::int32, {1}}}, {{"y", DataType::fp32, {-1}}}, 0);
  models_["talk"] = describe_talk();
  watcher_ = std::thread{[this] { watch_deadlines(); }};
}

TestService::~TestService() {
  {
    const std::lock_guard lock{mutex_};
    ending_ = true;
  }
  changed_.notify_all();
  watcher_.join();
}

std::shared_ptr<Service::Ticket> TestService::infer(InferRequest request, InferDone done) {
  if (const auto known = describe(request.model, request.version); !known) {
    done(fail(known.error()));
    return nullptr;
  }
  if (!request.sequence.id.empty()) {
    done(fail(Errc::invalid_argument, "no model here has sequences"));
    return nullptr;
  }
  if (request.model == "talk") {
    done(fail(Errc::unsupported, "model \"talk\" answers with a stream"));
    return nullptr;
  }
  if (request.model == "wait")
    return wait(request, std::move(done));
  if (request.model == "line") {
    const std::lock_guard lock{mutex_};
    last_ = request;
  }
  done(compute(request));
  return nullptr;
}

InferRequest TestService::last() const {
  const std::lock_guard lock{mutex_};
  return last_;
}

std::shared_ptr<Service::Replies> TestService::generate(InferRequest request) {
  return begin_talk(std::move(request), talks_);
}

Result<bool> TestService::generative(std::string_view model, std::string_view version, const SequenceStep& step) const {
  GPUACTORS_LET(known, describe(model, version, step));
  return known.generative;
}

Result<InferReply> TestService::compute(const InferRequest& request) {
  const auto begin = Clock::now();
  Result<std::vector<NamedTensor>> outputs = std::vector<NamedTensor>{};
  if (request.model == "line")
    outputs = line(request);
  else if (request.model == "big")
    outputs = big(request);
  else
    outputs = request.inputs;
  const auto took = static_cast<std::uint64_t>((Clock::now() - begin).count());
  const std::lock_guard lock{mutex_};
  auto& statistics = statistics_[request.model];
  auto& counted = outputs ? statistics.success : statistics.fail;
  ++counted.count;
  counted.nanoseconds += took;
  if (!outputs)
    return fail(outputs.error());
  const auto rows = request.model == "line" ? static_cast<std::uint64_t>(request.inputs[0].shape[0]) : 1;
  statistics.inference_count += rows;
  ++statistics.execution_count;
  ++statistics.batches[rows].count;
  return InferReply{request.model, "1", request.id, std::move(*outputs)};
}

// -- the model that waits ----------------------------------------------------------------------

std::shared_ptr<Service::Ticket> TestService::wait(const InferRequest& request, InferDone done) {
  const std::lock_guard lock{mutex_};
  const auto number = next_++;
  const auto timeout = request.timeout.value_or(std::chrono::seconds{100});
  waiting_[number] = {std::move(done), gpuactors::deadline_after(Clock::now(), timeout)};
  changed_.notify_all();
  return std::make_shared<WaitingTicket>(*this, number);
}

void TestService::end_waiting(std::uint64_t number) {
  InferDone done;
  {
    const std::lock_guard lock{mutex_};
    const auto found = waiting_.find(number);
    if (found == waiting_.end())
      return;
    done = std::move(found->second.done);
    waiting_.erase(found);
    ++cancelled_;
  }
  done(fail(Errc::cancelled, "the client has gone"));
}

void TestService::watch_deadlines() {
  std::unique_lock lock{mutex_};
  while (!ending_ || !waiting_.empty()) {
    auto next = Clock::now() + std::chrono::seconds{1};
    std::vector<InferDone> late;
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      if (ending_ || at->second.deadline <= Clock::now()) {
        late.push_back(std::move(at->second.done));
        at = waiting_.erase(at);
      } else {
        next = std::min(next, at->second.deadline);
        ++at;
      }
    }
    lock.unlock();
    for (const auto& done : late)
      done(fail(Errc::deadline_exceeded, "the timeout of the request passed"));
    lock.lock();
    if (late.empty() && !ending_)
      changed_.wait_until(lock, next);
  }
}

std::size_t TestService::waiting() const {
  const std::lock_guard lock{mutex_};
  return waiting_.size();
}

std::size_t TestService::cancelled() const {
  const std::lock_guard lock{mutex_};
  return cancelled_;
}

// -- what models say of themselves -------------------------------------------------------------

bool TestService::ready() const {
  std::unique_lock lock{mutex_};
  if (auto* gate = before_ready_) {
    lock.unlock();
    gate->pass();
    lock.lock();
  }
  return unloaded_.empty();
}

void TestService::hold_ready(gpuactors::test::Gate& gate) {
  const std::lock_guard lock{mutex_};
  before_ready_ = &gate;
}

Result<bool> TestService::model_ready(std::string_view model, std::string_view version) const {
  const auto found = models_.find(std::string{model});
  if (found == models_.end() || (!version.empty() && version != "1"))
    return fail(Errc::not_found, "there is no model \"" + std::string{model} + "\" of that version");
  const std::lock_guard lock{mutex_};
  return !unloaded_.contains(found->first);
}

Result<ModelDescription> TestService::describe(std::string_view model, std::string_view version,
                                               const SequenceStep& /*step*/) const {
  GPUACTORS_LET(ready, model_ready(model, version));
  if (!ready)
    return fail(Errc::unavailable, "model \"" + std::string{model} + "\" is not loaded");
  return models_.at(std::string{model});
}

Result<std::vector<ModelStatistics>> TestService::statistics(std::string_view model, std::string_view version) const {
  std::vector<ModelStatistics> result;
  if (!model.empty())
    GPUACTORS_TRY(model_ready(model, version));
  const std::lock_guard lock{mutex_};
  for (const auto& [name, description] : models_) {
    if (!model.empty() && name != model)
      continue;
    const auto found = statistics_.find(name);
    result.push_back(found == statistics_.end() ? ModelStatistics{} : found->second);
    result.back().name = name;
    result.back().version = "1";
  }
  return result;
}

std::vector<RepositoryEntry> TestService::repository() const {
  const std::lock_guard lock{mutex_};
  std::vector<RepositoryEntry> result;
  for (const auto& [name, description] : models_) {
    const auto gone = unloaded_.contains(name);
    result.push_back({name, "1", gone ? "UNAVAILABLE" : "READY", gone ? "unloaded" : ""});
  }
  return result;
}

Result<void> TestService::load(std::string_view model, const std::map<std::string, std::string>& parameters) {
  GPUACTORS_TRY(model_ready(model, ""));
  const std::lock_guard lock{mutex_};
  unloaded_.erase(std::string{model});
  load_parameters_ = parameters;
  return {};
}

Result<void> TestService::unload(std::string_view model) {
  GPUACTORS_TRY(model_ready(model, ""));
  const std::lock_guard lock{mutex_};
  unloaded_.insert(std::string{model});
  return {};
}

std::string TestService::metrics() const {
  const std::lock_guard lock{mutex_};
  std::string text = "# TYPE nv_inference_count counter\n";
  for (const auto& [name, statistics] : statistics_)
    text += "nv_inference_count{model=\"" + name + "\"} " + std::to_string(statistics.inference_count) + "\n";
  text += "test_waiting " + std::to_string(waiting_.size()) + "\ntest_cancelled " + std::to_string(cancelled_) + "\n";
  {
    const std::lock_guard talking{talks_->mutex};
    text += "test_talks_held " + std::to_string(talks_->held) + "\ntest_talks_cancelled "
            + std::to_string(talks_->cancelled) + "\ntest_talk_replies " + std::to_string(talks_->replies) + "\n";
  }
  for (const auto& [name, value] : load_parameters_)
    text += "test_load_parameter{name=\"" + name + "\",value=\"" + value + "\"} 1\n";
  return text;
}

} // namespace serve::test
