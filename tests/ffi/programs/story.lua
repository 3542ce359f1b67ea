-- Sends records of all signals through LuaJIT's FFI, which parses the header: luajit story.lua LIBRARY ENDPOINT
local ffi = require("ffi")

-- Returns the header without the parts that only a C compiler understands.
local function declarations()
  local path = arg[0]:gsub("tests/ffi/programs/story.lua$", "src/ffi/standpipe.h")
  local file = assert(io.open(path))
  local text = file:read("*a"):gsub("/%*.-%*/", "")
  file:close()
  local kept, inside = {}, false
  for line in text:gmatch("[^\n]+") do
    inside = inside or line:find("^static inline") ~= nil
    if not inside and not line:find("^#") and not line:find('^extern "C"') and line ~= "}" then
      kept[#kept + 1] = line
    end
    if line == "}" then inside = false end
  end
  return table.concat(kept, "\n")
end

ffi.cdef(declarations())
local lib = ffi.load(arg[1])

local function attr(key, value)
  local made = ffi.new("standpipe_attr[1]")
  made[0].key.ptr, made[0].key.len = key, #key
  if type(value) == "string" then
    made[0].value.kind, made[0].value.as.text.ptr, made[0].value.as.text.len = 1, value, #value
  elseif value % 1 == 0 then
    made[0].value.kind, made[0].value.as.i = 2, value
  else
    made[0].value.kind, made[0].value.as.d = 3, value
  end
  return made
end

local options = ffi.new("standpipe_options", { endpoint = arg[2], service = "shop" })
options.size = ffi.sizeof(options)
local out = ffi.new("standpipe *[1]")
assert(lib.standpipe_start(options, out, nil) == 0)
local telemetry = out[0]
local tracer = lib.standpipe_tracer_new(telemetry, "till", nil)
local logger = lib.standpipe_logger_new(telemetry, "till", nil)
local meter = lib.standpipe_meter_new(telemetry, "shop", nil)

local span_options = ffi.new("standpipe_span_options", { name = "checkout", kind = 2 })
span_options.size = ffi.sizeof(span_options)
local checkout = ffi.new("standpipe_span *[1]", lib.standpipe_span_start_with(tracer, span_options))
lib.standpipe_span_set_int(checkout[0], "order.id", 4711)
lib.standpipe_span_set_str(checkout[0], "card", "visa")
lib.standpipe_span_set_double(checkout[0], "total", 12.5)
lib.standpipe_span_set_bool(checkout[0], "express", true)
local payment = ffi.new("standpipe_span *[1]", lib.standpipe_span_start(tracer, "payment", checkout[0]))
lib.standpipe_span_event(payment[0], "retry", attr("attempt", 2), 1)
lib.standpipe_log(logger, 13, "declined", payment[0], attr("amount", 12.5), 1)
lib.standpipe_span_status(payment[0], 2, "card declined")
lib.standpipe_span_end(payment)
lib.standpipe_span_end(checkout)
assert(payment[0] == nil and checkout[0] == nil)

local bounds = ffi.new("double[2]", 1, 10)
local function instrument(fields)
    local options = ffi.new("standpipe_instrument_options", fields)
    options.size = ffi.sizeof(options)
    return lib.standpipe_instrument_new(meter, options)
end
local orders = instrument { kind = 1, name = "orders", unit = "{order}", description = "all" }
local heat = instrument { kind = 3, name = "heat" }
local total = instrument { kind = 4, name = "total", bounds = bounds, n = 2 }
assert(lib.standpipe_add(orders, 3, attr("country", "SE"), 1) == 0)
assert(lib.standpipe_record(heat, 21.5, nil, 0) == 0)
assert(lib.standpipe_record(total, 0.5, nil, 0) == 0)
assert(lib.standpipe_record(total, 49.5, nil, 0) == 0)

assert(lib.standpipe_shutdown(telemetry, 10000, nil) == 0)
for _, instrument in ipairs({ orders, heat, total }) do
  lib.standpipe_instrument_free(instrument)
end
lib.standpipe_meter_free(meter)
lib.standpipe_logger_free(logger)
lib.standpipe_tracer_free(tracer)
lib.standpipe_free(telemetry)
