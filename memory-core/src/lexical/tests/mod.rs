mod locomo;
