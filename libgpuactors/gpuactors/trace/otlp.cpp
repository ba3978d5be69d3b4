#include <gpuactors/base/utf8.hpp>
#include <gpuactors/base/version.hpp>
#include <gpuactors/trace/otlp.hpp>
#include <gpuactors/trace/otlp.pb.h>

#include <type_traits>

namespace gpuactors {

namespace {

std::string big_endian(std::uint64_t value) {
  std::string bytes(sizeof value, '\0');
  for (std::size_t i = bytes.size(); i > 0; --i, value >>= 8U)
    bytes[i - 1] = static_cast<char>(value & 0xffU);
  return bytes;
}

std::string trace_id(const TraceContext& context) {
  return big_endian(context.trace_high) + big_endian(context.trace_low);
}

/// Texts of programs may be any bytes, and collectors refuse requests with what is no UTF-8.
std::string text(const std::string& bytes) {
  return is_utf8(bytes) ? bytes : to_utf8(bytes);
}

void write(otlp::Attribute& attribute, const std::string& key, const SpanValue& value) {
  attribute.set_key(text(key));
  auto& out = *attribute.mutable_value();
  std::visit(
      [&out](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, bool>)
          out.set_bool_value(x);
        else if constexpr (std::is_same_v<T, std::int64_t>)
          out.set_int_value(x);
        else if constexpr (std::is_same_v<T, double>)
          out.set_double_value(x);
        else
          out.set_string_value(text(x));
      },
      value);
}

std::uint32_t flags_of(const TraceContext& context) {
  return context.sampled ? 1 : 0;
}

/// Moments of the steady clock as nanoseconds since 1970.
class UnixTime {
public:
  UnixTime(TimePoint now, std::chrono::system_clock::time_point unix_now) : now_(now), unix_now_(unix_now) {
    // nop
  }

  [[nodiscard]] std::uint64_t of(TimePoint moment) const {
    const auto then = std::chrono::nanoseconds{unix_now_.time_since_epoch()} - std::chrono::nanoseconds{now_ - moment};
    return then.count() < 0 ? 0 : static_cast<std::uint64_t>(then.count());
  }

private:
  TimePoint now_;
  std::chrono::system_clock::time_point unix_now_;
};

void write(otlp::Span& out, const SpanRecord& span, const UnixTime& time) {
  out.set_trace_id(trace_id(span.context));
  out.set_span_id(big_endian(span.context.span));
  if (span.parent != 0)
    out.set_parent_span_id(big_endian(span.parent));
  out.set_name(text(span.name));
  out.set_kind(static_cast<std::uint32_t>(span.kind));
  out.set_start_time_unix_nano(time.of(span.begun));
  out.set_end_time_unix_nano(time.of(span.ended));
  out.set_flags(flags_of(span.context));
  for (const auto& [key, value] : span.attributes)
    write(*out.add_attributes(), key, value);
  for (const auto& link : span.links) {
    auto& other = *out.add_links();
    other.set_trace_id(trace_id(link));
    other.set_span_id(big_endian(link.span));
    other.set_flags(flags_of(link));
  }
  if (span.error) {
    constexpr std::uint32_t failed = 2;
    out.mutable_status()->set_code(failed);
    out.mutable_status()->set_message(text(*span.error));
  }
}

} // namespace

std::string to_otlp(const std::vector<std::pair<std::string, std::string>>& resource,
                    const std::vector<SpanRecord>& spans, TimePoint now,
                    std::chrono::system_clock::time_point unix_now) {
  otlp::Export request;
  auto& all = *request.add_resource_spans();
  for (const auto& [key, value] : resource)
    write(*all.mutable_resource()->add_attributes(), key, value);
  auto& scope = *all.add_scope_spans();
  scope.mutable_scope()->set_name("gpuactors");
  scope.mutable_scope()->set_version(release);
  const UnixTime time{now, unix_now};
  for (const auto& span : spans)
    write(*scope.add_spans(), span, time);
  return request.SerializeAsString();
}

} // namespace gpuactors
