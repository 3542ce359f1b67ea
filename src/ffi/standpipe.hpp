/* standpipe.h for C++17: the same functions, as classes in the namespace stp (standpipe is the name of a type in C). A
 * handle is freed by its destructor, and a span ends with its scope, even if an exception leaves the scope. The rules of
 * standpipe.h apply. Only std::string and std::vector throw, if there is no memory for them. If the telemetry cannot be
 * started, all objects made from it do nothing.
 *
 *     stp::options options;
 *     options.service = "shop";
 *     stp::telemetry telemetry(options);
 *     stp::tracer tracer(telemetry, "shop");
 *     stp::span span = tracer.start("checkout");
 *     span.set("order.id", 4711);
 */
#ifndef STANDPIPE_HPP
#define STANDPIPE_HPP

#include "standpipe.h"

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace stp {

/* An attribute: a key with a text, a number or a bool. It points to the caller's texts, so it must not outlive them. */
struct attr : standpipe_attr {
    template <typename T>
    attr(std::string_view key_text, const T &content) noexcept : standpipe_attr{} {
        key.ptr = key_text.data();
        key.len = key_text.size();
        if constexpr (std::is_same_v<T, bool>) {
            value.kind = STANDPIPE_BOOL;
            value.as.i = content;
        } else if constexpr (std::is_integral_v<T>) {
            value.kind = STANDPIPE_INT;
            value.as.i = static_cast<int64_t>(content);
        } else if constexpr (std::is_floating_point_v<T>) {
            value.kind = STANDPIPE_DOUBLE;
            value.as.d = static_cast<double>(content);
        } else {
            const std::string_view text(content);
            value.kind = STANDPIPE_STR;
            value.as.text.ptr = text.data();
            value.as.text.len = text.size();
        }
    }
    /* Lists and maps: see standpipe_attr_list. */
    attr(const standpipe_attr &any) noexcept : standpipe_attr(any) {}
};
static_assert(sizeof(attr) == sizeof(standpipe_attr), "attributes are passed as an array of standpipe_attr");

using attrs = std::initializer_list<attr>;

namespace detail {
template <typename Handle, void (*Free)(Handle *)>
struct freed {
    void operator()(Handle *handle) const noexcept { Free(handle); }
};
template <typename Handle, void (*Free)(Handle *)>
using owned = std::unique_ptr<Handle, freed<Handle, Free>>;
} // namespace detail

/* Options with which telemetry is started. An empty text counts as unset. */
struct options {
    std::string endpoint{}; /* if empty, OpenTelemetry's environment variables describe the exporters */
    std::string service{};
    uint32_t flags = 0;
    standpipe_problem_fn problem = nullptr;
    void *user = nullptr;
};

/* Started telemetry. Its destructor sends the queued records, for up to two seconds. */
class telemetry {
public:
    /* If the start fails, `error` gets all mistakes, and the telemetry does nothing. */
    explicit telemetry(const options &given = {}, std::string *error = nullptr) {
        const auto text = [](const std::string &text) { return text.empty() ? nullptr : text.c_str(); };
        standpipe_options raw{};
        raw.size = sizeof raw;
        raw.endpoint = text(given.endpoint);
        raw.service = text(given.service);
        raw.flags = given.flags;
        raw.problem = given.problem;
        raw.user = given.user;
        const auto start = given.endpoint.empty() ? standpipe_start_from_env : standpipe_start;
        ::standpipe *handle = nullptr;
        char *mistakes = nullptr;
        start(&raw, &handle, &mistakes);
        handle_.reset(handle);
        const detail::owned<char, standpipe_text_free> freed(mistakes);
        if (error && mistakes) {
            *error = mistakes;
        }
    }

    explicit operator bool() const noexcept { return handle_ != nullptr; }
    ::standpipe *get() const noexcept { return handle_.get(); }

    /* Returns whether all records were sent within the budget. */
    bool flush(uint32_t budget_ms) const noexcept {
        return standpipe_flush(get(), budget_ms, nullptr) == STANDPIPE_OK;
    }
    standpipe_ledger shutdown(uint32_t budget_ms) const noexcept {
        standpipe_ledger ledger{};
        ledger.size = sizeof ledger;
        standpipe_shutdown(get(), budget_ms, &ledger);
        return ledger;
    }

private:
    detail::owned<::standpipe, standpipe_free> handle_;
};

/* Makes a span current until the end of the C++ scope. The object must be destroyed on the thread that made it. */
class scope {
public:
    explicit scope(standpipe_span *span) noexcept { standpipe_span_enter(span, &raw_); }
    ~scope() { standpipe_scope_leave(&raw_); }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;

private:
    standpipe_scope raw_{};
};

/* A span, which ends with its C++ scope. It can be moved. */
class span {
public:
    span() noexcept = default;
    explicit span(standpipe_span *raw) noexcept : raw_(raw) {}
    span(span &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    span &operator=(span &&other) noexcept {
        if (this != &other) {
            end();
            raw_ = std::exchange(other.raw_, nullptr);
        }
        return *this;
    }
    ~span() { end(); }

    standpipe_span *get() const noexcept { return raw_; }
    bool is_recording() const noexcept { return standpipe_span_is_recording(raw_); }
    template <typename T>
    span &set(std::string_view key, const T &value) noexcept {
        const attr one(key, value);
        standpipe_span_set(raw_, &one, 1);
        return *this;
    }
    span &event(const std::string &name, attrs list = {}) noexcept {
        standpipe_span_event(raw_, name.c_str(), list.begin(), list.size());
        return *this;
    }
    span &error(const std::string &message) noexcept {
        standpipe_span_status(raw_, STANDPIPE_STATUS_ERROR, message.c_str());
        return *this;
    }
    span &ok() noexcept {
        standpipe_span_status(raw_, STANDPIPE_STATUS_OK, nullptr);
        return *this;
    }
    /* Returns the header for a request; empty without a span. */
    std::string traceparent() const {
        char text[56] = "";
        if (raw_) {
            standpipe_span_traceparent(raw_, text);
        }
        return text;
    }
    /* Makes the span the thread's current span, as long as the returned object exists. */
    [[nodiscard]] scope enter() const noexcept { return scope(raw_); }
    void end() noexcept { standpipe_span_end(&raw_); }

private:
    standpipe_span *raw_ = nullptr;
};

class tracer {
public:
    tracer(const telemetry &from, const std::string &name, const std::string &version = {})
        : handle_(standpipe_tracer_new(from.get(), name.c_str(), version.c_str())) {}
    standpipe_tracer *get() const noexcept { return handle_.get(); }
    /* Starts a child of the thread's current span or, without one, the root of a new trace. */
    [[nodiscard]] span start(const std::string &name) const noexcept {
        return span(standpipe_span_start(get(), name.c_str(), nullptr));
    }
    [[nodiscard]] span start(const std::string &name, const span &parent) const noexcept {
        return span(standpipe_span_start(get(), name.c_str(), parent.get()));
    }
    /* The caller need not set `given.size`. */
    [[nodiscard]] span start(standpipe_span_options given) const noexcept {
        given.size = sizeof given;
        return span(standpipe_span_start_with(get(), &given));
    }

private:
    detail::owned<standpipe_tracer, standpipe_tracer_free> handle_;
};

class logger {
public:
    logger(const telemetry &from, const std::string &name, const std::string &version = {})
        : handle_(standpipe_logger_new(from.get(), name.c_str(), version.c_str())) {}
    standpipe_logger *get() const noexcept { return handle_.get(); }
    bool is_enabled(int32_t severity) const noexcept { return standpipe_log_enabled(get(), severity); }
    /* Emits a record that belongs to the thread's current span. */
    void log(int32_t severity, const std::string &body, attrs list = {}) const noexcept {
        standpipe_log(get(), severity, body.c_str(), nullptr, list.begin(), list.size());
    }
    void log(int32_t severity, const std::string &body, const span &of, attrs list = {}) const noexcept {
        standpipe_log(get(), severity, body.c_str(), of.get(), list.begin(), list.size());
    }

private:
    detail::owned<standpipe_logger, standpipe_logger_free> handle_;
};

/* An instrument of any kind. `add` and `record` return false if a call is invalid, for example `record` on a counter:
 * see standpipe.h. */
class instrument {
public:
    explicit instrument(standpipe_instrument *raw) noexcept : handle_(raw) {}
    template <typename T>
    bool add(T value, attrs list = {}) const noexcept {
        if constexpr (std::is_floating_point_v<T>) {
            return standpipe_add_double(handle_.get(), value, list.begin(), list.size()) == STANDPIPE_OK;
        } else {
            return standpipe_add(handle_.get(), static_cast<int64_t>(value), list.begin(), list.size()) == STANDPIPE_OK;
        }
    }
    bool record(double value, attrs list = {}) const noexcept {
        return standpipe_record(handle_.get(), value, list.begin(), list.size()) == STANDPIPE_OK;
    }
    /* Returns a handle with fixed attributes, for hot code. */
    [[nodiscard]] instrument bind(attrs list) const noexcept {
        return instrument(standpipe_instrument_bind(handle_.get(), list.begin(), list.size()));
    }

private:
    detail::owned<standpipe_instrument, standpipe_instrument_free> handle_;
};

class meter {
public:
    meter(const telemetry &from, const std::string &name, const std::string &version = {})
        : handle_(standpipe_meter_new(from.get(), name.c_str(), version.c_str())) {}
    /* `kind` is a kind of instrument, such as STANDPIPE_COUNTER; `bounds` are the bucket bounds of a histogram. */
    [[nodiscard]] instrument make(int32_t kind, const std::string &name, const std::string &unit = {},
                                  const std::string &description = {}, const std::vector<double> &bounds = {}) const {
        standpipe_instrument_options raw{};
        raw.size = sizeof raw;
        raw.kind = kind;
        raw.name = name.c_str();
        raw.unit = unit.c_str();
        raw.description = description.c_str();
        raw.bounds = bounds.data();
        raw.n = bounds.size();
        return instrument(standpipe_instrument_new(handle_.get(), &raw));
    }

private:
    detail::owned<standpipe_meter, standpipe_meter_free> handle_;
};

} // namespace stp

#endif
