//! One exchange: request, choose, connect, response, ending.
