#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/random_id.hpp>
#include <gpuactors/trace/span.hpp>
#include <gpuactors/trace/tracer.hpp>

#include <algorithm>

namespace gpuactors {

bool records_traces() {
  return process_tracer() != nullptr;
}

OpenSpan::OpenSpan(std::string_view name, SpanKind kind, const TraceContext& parent, TimePoint begun)
  : context_(parent) {
  auto* tracer = process_tracer();
  if (tracer == nullptr)
    return;
  auto own = parent;
  if (!parent.valid())
    own = {random_id(), random_id(), 0, false};
  own.sampled = tracer->sampler().samples(parent, own.trace_low);
  if (!own.sampled) {
    // A trace that is not recorded has a context too, so that no part of it begins another one.
    if (!parent.valid())
      own.span = random_id();
    context_ = own;
    return;
  }
  own.span = random_id();
  context_ = own;
  record_ = std::make_unique<SpanRecord>();
  record_->context = own;
  record_->parent = parent.valid() ? parent.span : 0;
  record_->kind = kind;
  record_->name = name.substr(0, limits::span_text_bytes);
  record_->begun = begun;
}

OpenSpan& OpenSpan::operator=(OpenSpan&& other) noexcept {
  if (this != &other) {
    end();
    context_ = other.context_;
    record_ = std::move(other.record_);
  }
  return *this;
}

OpenSpan::~OpenSpan() {
  end();
}

void OpenSpan::set(std::string_view key, SpanValue value) {
  if (record_ == nullptr)
    return;
  if (auto* text = std::get_if<std::string>(&value); text != nullptr && text->size() > limits::span_text_bytes)
    text->resize(limits::span_text_bytes);
  auto& attributes = record_->attributes;
  const auto same =
      std::find_if(attributes.begin(), attributes.end(), [key](const auto& one) { return one.first == key; });
  if (same != attributes.end())
    same->second = std::move(value);
  else if (attributes.size() < limits::span_attributes)
    attributes.emplace_back(key, std::move(value));
}

void OpenSpan::link(const TraceContext& other) {
  if (record_ != nullptr && other.valid() && record_->links.size() < limits::span_links)
    record_->links.push_back(other);
}

void OpenSpan::fail(const Error& error) {
  if (record_ != nullptr)
    fail(to_string(error.code()), error.message());
}

void OpenSpan::fail(std::string_view type, std::string_view message) {
  if (record_ == nullptr)
    return;
  set("error.type", std::string{type});
  record_->error = message.substr(0, limits::span_text_bytes);
}

void OpenSpan::end(TimePoint ended) {
  if (record_ == nullptr)
    return;
  record_->ended = ended;
  process_tracer()->record(std::move(*record_));
  record_ = nullptr;
}

} // namespace gpuactors
