# cmake -DNM=nm -DOBJECTS=a.o;b.o -P check_tier_symbols.cmake
# A source compiled for more than the oldest CPU may define one global symbol, its table. Anything
# else (an inline function of a shared header) could be the copy the linker keeps for the whole
# program, and would then crash a CPU that has less.
set(checked)
foreach(object IN LISTS OBJECTS)
  if(NOT object MATCHES "kernels_(avx[0-9a-z_]+|neon)\\.cc")
    continue()
  endif()
  set(tier ${CMAKE_MATCH_1})
  execute_process(COMMAND ${NM} -C --defined-only --extern-only ${object}
    OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "\n$" "" symbols "${symbols}")
  string(REPLACE "\n" ";" symbols "${symbols}")
  if(NOT symbols)
    continue()  # of another architecture
  endif()
  list(APPEND checked ${tier})
  foreach(symbol IN LISTS symbols)
    if(NOT symbol MATCHES "quire::k(Avx|Neon)[0-9A-Za-z]*Kernels$|DW\\.ref\\.|__asan|__odr_asan|__ubsan")
      message(FATAL_ERROR "${object} defines ${symbol}")
    endif()
  endforeach()
endforeach()
list(LENGTH checked n_checked)
if(n_checked EQUAL 0)
  message(FATAL_ERROR "no tier's object among ${OBJECTS}")
endif()
message(STATUS "one symbol each: ${checked}")
