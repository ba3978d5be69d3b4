#include <gpuactors/base/error.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/utf8.hpp>

#include <support/catch.hpp>

#include <string>

using namespace gpuactors;

namespace {

const std::string mark = "\xEF\xBF\xBD";

} // namespace

TEST_CASE("text is UTF-8, whatever it was before") {
  for (const std::string good : {"", "a\tb\x1B[31m", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF",
                                 "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
    CHECK((to_utf8(good) == good && is_utf8(good)));
  CHECK(to_utf8(std::string("a\0b", 3)) == "a" + mark + "b");
  CHECK(to_utf8("\x80") == mark);
  CHECK(to_utf8("\xC3") == mark);
  CHECK(to_utf8("\xC3(") == mark + "(");
  CHECK(to_utf8("\xC0\x80") == mark + mark);            // longer than need be
  CHECK(to_utf8("\xE0\x9F\xBF") == mark + mark + mark); // the same
  CHECK(to_utf8("\xED\xA0\x80") == mark + mark + mark); // half of a pair
  CHECK(to_utf8("\xF4\x90\x80\x80") == mark + mark + mark + mark);
  CHECK(to_utf8("\xFF") == mark);
}

TEST_CASE("the text of an error is UTF-8 and of a bounded length, whoever wrote it") {
  CHECK(Error{Errc::task_failed, "caf\xE9"}.message() == "caf" + mark);
  CHECK_FALSE(is_utf8("caf\xE9"));
  CHECK_FALSE(is_utf8(std::string("a\0b", 3)));
  const Error small{Errc::task_failed, std::string(limits::error_text_bytes, 'a')};
  CHECK(small.message().size() == limits::error_text_bytes);
  const auto kept = limits::error_text_bytes - 40;
  const Error large{Errc::task_failed, std::string(kept - 1, 'a') + "\xC3\xA9" + std::string(100, 'b')};
  CHECK(large.message() == std::string(kept - 1, 'a') + " [102 more bytes]");
  CHECK(Error{Errc::task_failed, large.message()}.message() == large.message());
  const Error wrong{Errc::task_failed, std::string(limits::error_text_bytes, '\xE9')};
  CHECK(wrong.message().size() <= limits::error_text_bytes);
  CHECK(is_utf8(wrong.message()));
}
